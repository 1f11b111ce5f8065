/* An audit of IPAddress objects: one that fits, one leaked, one Service without. */
#include "check.h"

static void add_ip_address(rk_ip_addresses *objects, int64_t created, const char *name, const char *service) {
  rk_ip_address object = {created, 8, rk_text_of(name), rk_text_of("ipallocator.k8s.io"), rk_text_of(""),
                          rk_text_of("services"), rk_text_of("default"), rk_text_of(service), false};
  CHECK_OK(rk_ip_addresses_add(objects, &object));
}

static rk_report *run(const int64_t *now) {
  rk_audit *audit = NULL;
  rk_error error;
  CHECK_OK(rk_audit_new(NULL, true, now, &audit));
  CHECK_OK(rk_audit_add_service_cidr(audit, TEXT("10.0.0.0/24"), true, &error));
  CHECK_OK(rk_audit_add_service_cidr(audit, TEXT("fd00::/64"), true, &error));
  CHECK_RESULT(rk_audit_add_service_cidr(audit, TEXT("10.0.0.0"), true, &error), RK_RESULT_INVALID_RANGE);

  memory memories[3];
  rk_ip_addresses objects = {batch_in(&memories[0])};
  rk_services services = {batch_in(&memories[1])};
  rk_service_names names = {batch_in(&memories[2])};
  add_ip_address(&objects, 1000, "10.0.0.1", "a");
  add_ip_address(&objects, 1000, "10.0.0.9", "gone");
  add_service(&services, "10.0.0.1", 0, 0);
  CHECK_OK(rk_service_names_add(&names, rk_text_of("default"), rk_text_of("a"), 0, 0));
  add_service(&services, "10.0.0.2", 0, 0);
  CHECK_OK(rk_service_names_add(&names, rk_text_of("default"), rk_text_of("b"), 0, 0));
  CHECK_OK(rk_audit_observe_ip_addresses(audit, &objects, NULL));
  CHECK_OK(rk_audit_observe_services(audit, &names, &services, NULL));
  rk_report *report = NULL;
  CHECK_OK(rk_audit_finish(audit, &report, NULL));
  CHECK_RESULT(rk_audit_finish(audit, &report, NULL), RK_RESULT_ENDED);
  rk_audit_free(audit);
  return report;
}

/* A bitmap beside the objects: the bit of 10.0.0.4 is set for nothing, and that of 10.0.0.1 is missing. */
static rk_report *compare(uint64_t upgraded, rk_leak_tracker *tracker) {
  rk_audit *audit = NULL;
  rk_range range;
  rk_report *report = NULL;
  static const uint8_t bits[] = {8};
  CHECK_OK(rk_audit_new(tracker, true, NULL, &audit));
  CHECK_OK(rk_range_parse(TEXT("10.0.0.0/24"), RK_RANGE_KIND_CIDR, &range, NULL));
  CHECK_OK(rk_audit_add_bitmap(audit, &range, TEXT("10.0.0.0/24"), bits, sizeof bits, NULL));
  CHECK_OK(rk_audit_add_service_cidr(audit, TEXT("10.0.0.0/24"), true, NULL));
  CHECK_OK(rk_audit_compare_bitmap(audit, 0, 9, upgraded, NULL));
  memory memories[3];
  rk_ip_addresses objects = {batch_in(&memories[0])};
  rk_services services = {batch_in(&memories[1])};
  rk_service_names names = {batch_in(&memories[2])};
  add_ip_address(&objects, 1000, "10.0.0.1", "a");
  add_service(&services, "10.0.0.1", 0, 0);
  CHECK_OK(rk_service_names_add(&names, rk_text_of("default"), rk_text_of("a"), 0, 0));
  CHECK_OK(rk_audit_observe_ip_addresses(audit, &objects, NULL));
  CHECK_OK(rk_audit_observe_services(audit, &names, &services, NULL));
  CHECK_OK(rk_audit_finish(audit, &report, NULL));
  rk_audit_free(audit);
  return report;
}

static void bitmap_beside_objects(void) {
  rk_finding findings[3];
  rk_range_report counts;
  size_t n = 0;
  rk_report *report = compare(0, NULL);
  CHECK_OK(rk_report_findings(report, 0, findings, 3, &n));
  CHECK(n == 2 && findings[0].reason == RK_REASON_BITMAP_DISAGREES && findings[1].reason == RK_REASON_BITMAP_DISAGREES);
  CHECK(findings[0].subject_kind == RK_SUBJECT_KIND_IP_ADDRESS && findings[0].subject == 0 && !findings[0].stays);
  CHECK(findings[1].subject_kind == RK_SUBJECT_KIND_SERVICE_CIDR && findings[1].subject == 1 && !findings[1].stays);
  CHECK(findings[1].range == 0 && findings[1].remedy == RK_REMEDY_REPAIR);
  CHECK(same(findings[1].value.address, ipv4(0x0a000004)));
  CHECK_OK(rk_report_range(report, 0, &counts));
  CHECK(counts.record == RK_RECORD_BITMAP && counts.set == 1 && counts.clear == 1);
  rk_report_free(report);
  report = compare(10, NULL);
  CHECK_OK(rk_report_findings(report, 0, findings, 3, &n));
  CHECK_OK(rk_report_range(report, 0, &counts));
  CHECK(n == 0 && counts.record == RK_RECORD_STALE);
  rk_report_free(report);

  rk_leak_tracker *keeping = NULL;
  CHECK_OK(rk_leak_tracker_new(2, 0, true, &keeping, NULL));
  for (uint32_t clear = 0; clear < 2; clear++) {
    report = compare(0, keeping);
    CHECK_OK(rk_report_findings(report, 0, findings, 3, &n));
    CHECK_OK(rk_report_range(report, 0, &counts));
    CHECK(n == 2 && findings[1].stays == (clear == 0) && counts.clear == clear);
    rk_report_free(report);
  }
  rk_leak_tracker_free(keeping);
}

/* Of an object without parent, one with an empty parent, one with another text and a Service with another text, each
 * has its finding. With a Service that cannot be read, no object is removed and no leak cleaned. */
static void faults_of_objects(void) {
  for (int unreadable = 0; unreadable < 2; unreadable++) {
    rk_audit *audit = NULL;
    rk_report *report = NULL;
    rk_error error;
    CHECK_OK(rk_audit_new(NULL, true, NULL, &audit));
    CHECK_OK(rk_audit_add_service_cidr(audit, TEXT("10.0.0.0/24"), true, NULL));
    memory memories[3];
    rk_ip_addresses objects = {batch_in(&memories[0])};
    rk_services services = {batch_in(&memories[1])};
    rk_service_names names = {batch_in(&memories[2])};
    const rk_text managed_by = rk_text_of("ipallocator.k8s.io");
    const rk_ip_address bare = {.name = rk_text_of("10.0.0.9"), .managed_by = managed_by, .without_parent = true};
    const rk_ip_address of_nothing = {.name = rk_text_of("10.0.0.10"), .managed_by = managed_by};
    CHECK_OK(rk_ip_addresses_add(&objects, &bare));
    add_ip_address(&objects, 1000, "010.0.0.8", "gone");
    add_ip_address(&objects, 1000, "10.0.0.1", "a");
    add_ip_address(&objects, 1000, "10.0.0.7", "gone");
    CHECK_OK(rk_ip_addresses_add(&objects, &of_nothing));
    add_service(&services, "10.0.00.1", 0, 0);
    CHECK_OK(rk_service_names_add(&names, rk_text_of("default"), rk_text_of("a"), 0, 0));
    CHECK_OK(rk_audit_observe_ip_addresses(audit, &objects, NULL));
    CHECK_OK(rk_audit_observe_services(audit, &names, &services, NULL));
    CHECK_OK(rk_audit_check_cluster(audit, RK_PRESENCE_MISSING, RK_PRESENCE_MISSING, RK_PRESENCE_MISSING, 0, true, &error));
    if (unreadable) {
      CHECK_OK(rk_audit_observe_unreadable(audit, RK_SUBJECT_KIND_SERVICE, NULL, 0, &error));
      CHECK_RESULT(rk_audit_check_cluster(audit, RK_PRESENCE_MISSING, RK_PRESENCE_MISSING, RK_PRESENCE_MISSING, 0, true, &error),
                   RK_RESULT_UNREADABLE);
      CHECK(strstr(error.message, "1 object cannot be read") != NULL);
    }
    CHECK_OK(rk_audit_finish(audit, &report, NULL));
    rk_audit_free(audit);
    rk_finding findings[4];
    rk_leak leaks[2];
    rk_object_repair repairs[4];
    size_t n = 0;
    CHECK_OK(rk_report_findings(report, 0, findings, 4, &n));
    CHECK(n == 4 && findings[0].reason == RK_REASON_CLUSTER_IP_NOT_CANONICAL && findings[0].remedy == RK_REMEDY_OWNER);
    CHECK(findings[1].reason == RK_REASON_IP_ADDRESS_WITHOUT_PARENT && findings[1].subject == 0);
    CHECK(findings[2].reason == RK_REASON_IP_ADDRESS_NOT_CANONICAL && findings[2].value_kind == RK_VALUE_KIND_TEXT);
    CHECK(findings[3].reason == RK_REASON_IP_ADDRESS_NOT_ALLOCATED && findings[3].subject == 4);
    CHECK(findings[1].remedy == (unreadable ? RK_REMEDY_OWNER : RK_REMEDY_API_SERVER));
    CHECK_OK(rk_report_leaks(report, 0, leaks, 2, &n));
    CHECK(n == 1 && leaks[0].stays == (unreadable == 1));
    CHECK_OK(rk_report_object_repairs(report, 0, repairs, 4, &n));
    CHECK(n == (unreadable ? 0 : 4));
    rk_report_free(report);
  }
  CHECK(rk_cluster_ip_records_of(0, RK_PRESENCE_MISSING) == RK_CLUSTER_IP_RECORDS_UNKNOWN);
  CHECK(rk_cluster_ip_records_of(0, RK_PRESENCE_UNSEEN) == RK_CLUSTER_IP_RECORDS_BITMAPS);
  CHECK(rk_cluster_ip_records_of(1, RK_PRESENCE_UNSEEN) == RK_CLUSTER_IP_RECORDS_OBJECTS);
  CHECK(rk_cluster_ip_records_of(1, RK_PRESENCE_INITIALISED) == RK_CLUSTER_IP_RECORDS_BOTH);
  CHECK(rk_store_content_of(1, 0, 0) == RK_STORE_CONTENT_SERVICES);
  CHECK(rk_store_content_of(1, 0, 1) == RK_STORE_CONTENT_CLUSTER);
  CHECK(rk_reason_severity(RK_REASON_IP_ADDRESS_WITHOUT_PARENT) == RK_SEVERITY_BREAKS_TRAFFIC);
}

/* Of two Services with one address the older one keeps it, and gets the IPAddress object that is missing; that of
 * 10.0.0.9, whose Service is gone, is removed. */
static void claimants_and_objects(void) {
  rk_audit *audit = NULL;
  rk_report *report = NULL;
  CHECK_OK(rk_audit_new(NULL, true, NULL, &audit));
  CHECK_OK(rk_audit_add_service_cidr(audit, TEXT("10.0.0.0/24"), true, NULL));
  memory memories[3];
  rk_ip_addresses objects = {batch_in(&memories[0])};
  rk_services services = {batch_in(&memories[1])};
  rk_service_names names = {batch_in(&memories[2])};
  add_ip_address(&objects, 1000, "10.0.0.9", "gone");
  add_service(&services, "10.0.0.1", 0, 0);
  add_service(&services, "10.0.0.1", 0, 0);
  CHECK_OK(rk_service_names_add(&names, rk_text_of("default"), rk_text_of("new"), 2000, 0));
  CHECK_OK(rk_service_names_add(&names, rk_text_of("default"), rk_text_of("old"), 1000, 0));
  CHECK_OK(rk_audit_observe_ip_addresses(audit, &objects, NULL));
  CHECK_OK(rk_audit_observe_services(audit, &names, &services, NULL));
  CHECK_OK(rk_audit_finish(audit, &report, NULL));
  rk_audit_free(audit);

  rk_finding findings[3];
  rk_claimant claimants[2];
  rk_object_repair repairs[3];
  size_t n = 9;
  CHECK_OK(rk_report_findings(report, 0, findings, 3, &n));
  CHECK(n == 2 && findings[1].reason == RK_REASON_CLUSTER_IP_ALREADY_ALLOCATED && findings[1].subject == 1);
  CHECK_OK(rk_report_claimants(report, 1, NULL, 0, &n));
  CHECK(n == 0);
  CHECK_OK(rk_report_observe_claimants(report, &names, &services, NULL));
  CHECK_OK(rk_report_findings(report, 0, findings, 3, &n));
  CHECK(n == 2 && findings[1].reason == RK_REASON_CLUSTER_IP_ALREADY_ALLOCATED && findings[1].subject == 0);
  CHECK_OK(rk_report_claimants(report, 1, claimants, 2, &n));
  CHECK(n == 2 && claimants[0].service == 1 && claimants[0].keeps && claimants[1].service == 0 && !claimants[1].keeps);
  CHECK_OK(rk_report_object_repairs(report, 0, repairs, 3, &n));
  CHECK(n == 2 && same(repairs[0].address, ipv4(0x0a000001)) && same(repairs[1].address, ipv4(0x0a000009)));
  CHECK(repairs[0].removed == RK_NO_OBJECT && repairs[0].service == 1);
  CHECK(repairs[1].removed == 0 && repairs[1].service == RK_NO_OBJECT);
  rk_report_free(report);
}

int main(void) {
  faults_of_objects();
  claimants_and_objects();
  bitmap_beside_objects();
  rk_report *report = run(NULL);
  size_t n = 0;
  rk_leak leaks[2];
  CHECK_OK(rk_report_leaks(report, 0, leaks, 2, &n));
  CHECK(n == 1 && same(leaks[0].value, ipv4(0x0a000009)) && leaks[0].object == 1 && leaks[0].range == 0);
  rk_finding findings[2];
  CHECK_OK(rk_report_findings(report, 0, findings, 2, &n));
  CHECK(n == 1 && findings[0].reason == RK_REASON_CLUSTER_IP_NOT_ALLOCATED && findings[0].subject == 1);
  char text[256];
  size_t ends[2], written = 0;
  CHECK_OK(rk_report_finding_texts(report, 0, text, sizeof text, ends, 1, &written));
  CHECK(written == 1 && ends[0] == 8 && memcmp(text, "10.0.0.2", 8) == 0 && ends[1] > 28);
  uint64_t services = 0;
  CHECK_OK(rk_report_services(report, &services));
  CHECK(services == 2);
  rk_range_report counts;
  CHECK_OK(rk_report_range(report, 0, &counts));
  CHECK(counts.record == RK_RECORD_IP_ADDRESSES && counts.size == 254 && counts.stored == 2 && counts.static_band == 16);
  CHECK(counts.in_use == 2 && counts.next == 2 && counts.set == 1 && counts.clear == 1 && counts.leaked == 1);
  rk_run runs[4];
  uint64_t next = 0;
  CHECK_OK(rk_report_runs(report, 0, RK_VALUES_STORED, false, 0, runs, 4, &n, &next));
  CHECK(n == 2 && runs[0].len == 7 && same(runs[0].first, ipv4(0x0a000002)) && runs[1].len == 245);
  uint8_t data[1];
  CHECK_RESULT(rk_report_snapshot(report, 0, RK_VALUES_NEXT, data, sizeof data, &n), RK_RESULT_INVALID_ARGUMENT);
  rk_offset_state state;
  CHECK_OK(rk_report_state(report, 0, AT(ipv4(0x0a000009)), &state));
  CHECK(state.stored && !state.in_use && !state.next);
  rk_cell cells[1];
  CHECK_OK(rk_report_occupancy(report, 0, 1, cells, 1, &n));
  CHECK(n == 1 && cells[0].len == 254 && cells[0].in_use == 2 && cells[0].leaked == 1 && cells[0].lost == 1);
  /* The number of cells is known without them, and never more than one for each value of a /12. */
  CHECK_OK(rk_report_occupancy(report, 0, 0, cells, 1, &n));
  CHECK(n == 0);
  CHECK_RESULT(rk_report_occupancy(report, 1, UINT32_MAX, NULL, 0, &n), RK_RESULT_BUFFER_TOO_SMALL);
  CHECK(n == 1u << 20);
  rk_report_free(report);

  /* A young object may still wait for its Service. */
  int64_t now = 1060;
  report = run(&now);
  CHECK_OK(rk_report_leaks(report, 0, leaks, 2, &n));
  CHECK(n == 0);
  rk_report_free(report);
  now = 1061;
  report = run(&now);
  CHECK_OK(rk_report_leaks(report, 0, leaks, 2, &n));
  CHECK(n == 1);
  rk_report_free(report);
  return 0;
}

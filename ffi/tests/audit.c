/* An audit of bitmaps over Services with one of each kind of drift. */
#include "check.h"

static rk_report *run(rk_leak_tracker *tracker) {
  rk_range addresses = range_of("10.0.0.0/24");
  rk_range ports = range_of("30000-32767");
  rk_audit *audit = NULL;
  rk_error error;
  CHECK_OK(rk_audit_new(tracker, false, NULL, &audit));
  /* Stored: .1 in use, .3 leaked; nothing for ports yet. */
  const uint8_t stored[1] = {5};
  CHECK_OK(rk_audit_add_bitmap(audit, &addresses, TEXT("10.0.0.0/24"), stored, 1, &error));
  CHECK_OK(rk_audit_add_bitmap(audit, &ports, NULL, 0, NULL, 0, &error));
  CHECK_RESULT(rk_audit_add_bitmap(audit, &ports, NULL, 0, NULL, 0, &error), RK_RESULT_SAME_KIND);

  memory memories[2];
  rk_services first = {batch_in(&memories[0])}, second = {batch_in(&memories[1])};
  add_service(&first, "10.0.0.1", 30005, 30006);
  add_service(&first, "10.0.0.2", 0, 0);
  add_service(&second, "10.0.0.2", 0, 0);
  add_service(&second, "10.1.0.1", 80, 0);
  add_service(&second, "bad", 0, 0);
  add_service(&second, "None", 0, 0);
  CHECK_OK(rk_audit_observe_services(audit, NULL, &first, NULL));
  CHECK_OK(rk_audit_observe_services(audit, NULL, &second, NULL));
  rk_report *report = NULL;
  CHECK_OK(rk_audit_finish(audit, &report, NULL));
  CHECK_RESULT(rk_audit_observe_services(audit, NULL, &second, NULL), RK_RESULT_ENDED);
  rk_audit_free(audit);
  return report;
}

/* Bitmaps that cannot be read: duplicates, values outside and the known leak are found. */
static void unseen(void) {
  rk_range ports = range_of("30000-30009");
  rk_audit *audit = NULL;
  rk_error error;
  const uint8_t known[1] = {8}; /* 30003 */
  CHECK_OK(rk_audit_new(NULL, false, NULL, &audit));
  CHECK_OK(rk_audit_add_unseen(audit, NULL, NULL, 0, &error));
  CHECK_OK(rk_audit_add_unseen(audit, &ports, known, 1, &error));
  CHECK_RESULT(rk_audit_add_unseen(audit, &ports, known, 1, &error), RK_RESULT_SAME_KIND);
  memory memory;
  rk_services services = {batch_in(&memory)};
  add_service(&services, "10.0.0.1", 30005, 0);
  add_service(&services, "10.0.0.1", 80, 0);
  CHECK_OK(rk_audit_observe_services(audit, NULL, &services, NULL));
  CHECK_RESULT(rk_audit_add_unseen(audit, &ports, known, 1, &error), RK_RESULT_INVALID_ARGUMENT);
  rk_report *report = NULL;
  CHECK_OK(rk_audit_finish(audit, &report, NULL));
  rk_audit_free(audit);
  rk_finding findings[3];
  size_t n = 0;
  CHECK_OK(rk_report_findings(report, 0, findings, 3, &n));
  CHECK(n == 2 && findings[0].reason == RK_REASON_CLUSTER_IP_ALREADY_ALLOCATED);
  CHECK(findings[1].reason == RK_REASON_PORT_OUT_OF_RANGE && findings[1].subject == 1);
  rk_range_report counts;
  CHECK_OK(rk_report_range(report, 0, &counts));
  CHECK(counts.record == RK_RECORD_UNSEEN && counts.stored == 2 && counts.leaked == 1 && counts.set == 0);
  rk_report_free(report);
}

int main(void) {
  unseen();
  rk_report *report = run(NULL);
  uint64_t services = 0;
  CHECK_OK(rk_report_services(report, &services));
  CHECK(services == 6);

  static const struct {
    rk_reason reason;
    uint64_t subject;
    const char *text;
    uint32_t remedy;
  } expected[] = {
      {RK_REASON_PORT_NOT_ALLOCATED, 0, "30005", RK_REMEDY_REPAIR},
      {RK_REASON_PORT_NOT_ALLOCATED, 0, "30006", RK_REMEDY_REPAIR},
      {RK_REASON_CLUSTER_IP_NOT_ALLOCATED, 1, "10.0.0.2", RK_REMEDY_REPAIR},
      {RK_REASON_CLUSTER_IP_ALREADY_ALLOCATED, 2, "10.0.0.2", RK_REMEDY_OWNER},
      {RK_REASON_CLUSTER_IP_OUT_OF_RANGE, 3, "10.1.0.1", RK_REMEDY_OWNER},
      {RK_REASON_PORT_OUT_OF_RANGE, 3, "80", RK_REMEDY_OWNER},
      {RK_REASON_CLUSTER_IP_NOT_VALID, 4, "bad", RK_REMEDY_OWNER},
  };
  rk_finding findings[10];
  size_t n = 0, len = 0;
  CHECK_OK(rk_report_findings(report, 0, findings, 10, &n));
  CHECK(n == sizeof expected / sizeof *expected);
  for (size_t i = 0; i < n; i++) {
    CHECK(findings[i].reason == expected[i].reason && findings[i].subject == expected[i].subject);
    CHECK(findings[i].remedy == expected[i].remedy && findings[i].subject_kind == RK_SUBJECT_KIND_SERVICE);
  }
  /* Two at a time, and the last one alone. */
  char texts[400];
  size_t ends[4], written = 0;
  for (size_t i = 0; i < n; i += 2) {
    CHECK_OK(rk_report_finding_texts(report, i, texts, sizeof texts, ends, 2, &written));
    CHECK(written == (n - i < 2 ? n - i : 2));
    for (size_t k = 0, begin = 0; k < written; begin = ends[2 * k + 1], k++) {
      const char *value = expected[i + k].text;
      CHECK(ends[2 * k] - begin == strlen(value) && memcmp(texts + begin, value, strlen(value)) == 0);
      size_t length = ends[2 * k + 1] - ends[2 * k], at = 0;
      while (at + strlen(value) <= length && memcmp(texts + ends[2 * k] + at, value, strlen(value)) != 0) at++;
      CHECK(length > 20 && at + strlen(value) <= length);
    }
  }
  CHECK_OK(rk_report_finding_texts(report, n, texts, sizeof texts, ends, 2, &written));
  CHECK(written == 0);
  /* Where one fits but not two, one comes. */
  CHECK_OK(rk_report_finding_texts(report, 0, texts, sizeof texts, ends, 1, &written));
  size_t first = ends[1];
  CHECK_OK(rk_report_finding_texts(report, 0, texts, first, ends, 2, &written));
  CHECK(written == 1 && ends[1] == first);
  CHECK_RESULT(rk_report_finding_texts(report, 0, texts, first - 1, ends, 2, &written), RK_RESULT_BUFFER_TOO_SMALL);
  CHECK(findings[0].value_kind == RK_VALUE_KIND_PORT && findings[0].value.port == 30005 && findings[0].range == 1);
  CHECK(findings[2].value_kind == RK_VALUE_KIND_IPV4 && same(findings[2].value.address, ipv4(0x0a000002)));
  CHECK(findings[6].value_kind == RK_VALUE_KIND_TEXT);
  CHECK(strcmp(rk_reason_name(findings[3].reason), "ClusterIPAlreadyAllocated") == 0);
  CHECK_OK(rk_report_findings(report, 6, findings, 10, &n));
  CHECK(n == 1);

  rk_range_report counts;
  CHECK_OK(rk_report_range(report, 0, &counts));
  CHECK(counts.stored == 2 && counts.in_use == 2 && counts.leaked == 1 && counts.next == 2);
  CHECK(counts.set == 1 && counts.clear == 1 && counts.duplicates == 1 && counts.dropped == 0);
  CHECK(counts.record == RK_RECORD_BITMAP && counts.size == 254 && counts.static_band == 16);
  rk_leak leaks[3];
  CHECK_OK(rk_report_leaks(report, 0, leaks, 3, &n));
  CHECK(n == 1 && same(leaks[0].value, ipv4(0x0a000003)) && leaks[0].range == 0 && leaks[0].object == RK_NO_OBJECT);
  CHECK(leaks[0].severity == RK_SEVERITY_WASTED);
  static const uint32_t sole[] = {0x0a000002, 0x0a000003, 0x0a000003, 0x0a000002};
  rk_run runs[4];
  uint64_t next = 0;
  for (uint32_t which = RK_VALUES_SET; which <= RK_VALUES_DUPLICATES; which++) {
    CHECK_OK(rk_report_runs(report, 0, which, true, 0, runs, 4, &n, &next));
    CHECK(n == 1 && runs[0].len == 1 && same(runs[0].first, ipv4(sole[which - RK_VALUES_SET])));
  }
  CHECK_OK(rk_report_runs(report, 0, RK_VALUES_NEXT, true, 0, runs, 4, &n, &next));
  CHECK(n == 1 && runs[0].len == 2);
  CHECK_OK(rk_report_runs(report, 0, RK_VALUES_NEXT, false, 0, runs, 4, &n, &next));
  CHECK(n == 1 && runs[0].len == 252);
  uint8_t data[512];
  CHECK_OK(rk_report_snapshot(report, 0, RK_VALUES_NEXT, data, sizeof data, &len));
  CHECK(len == 1 && data[0] == 3);
  rk_offset_state state;
  CHECK_OK(rk_report_state(report, 0, AT(ipv4(0x0a000003)), &state));
  CHECK(state.band == RK_BAND_STATIC && state.stored && !state.in_use && !state.duplicate && !state.next);
  CHECK_RESULT(rk_report_state(report, 0, AT(ipv4(0x0b000003)), &state), RK_RESULT_NOT_IN_RANGE);
  const rk_value none = {0, 0, RK_VALUE_KIND_NONE};
  CHECK_RESULT(rk_report_state(report, 0, &none, &state), RK_RESULT_NOT_IN_RANGE);
  rk_cell cells[2];
  CHECK_OK(rk_report_occupancy(report, 0, 2, cells, 2, &n));
  CHECK(n == 2 && cells[0].len == 127 && cells[0].in_use == 2 && cells[0].leaked == 1 && cells[0].lost == 1);
  CHECK(cells[0].duplicate == 1 && cells[1].first == 127 && cells[1].in_use == 0);

  /* A failed repair leaves all findings. */
  rk_report *failed = run(NULL);
  CHECK_OK(rk_report_record_repair(failed, 0, RK_REPAIR_FAILED, NULL, 0, NULL, 0, NULL));
  CHECK_RESULT(rk_report_record_repair(failed, 0, RK_REPAIR_FAILED, &leaks[0].value, 1, NULL, 0, NULL), RK_RESULT_INVALID_ARGUMENT);
  CHECK_OK(rk_report_findings(failed, 0, findings, 10, &n));
  CHECK(n == sizeof expected / sizeof *expected);
  CHECK_OK(rk_report_range(failed, 0, &counts));
  CHECK(counts.set == 0 && counts.clear == 0 && counts.next == 2);
  rk_report_free(failed);

  /* The repair has set the address in use, and left the leak. */
  rk_error error;
  const rk_value set = ipv4(0x0a000002), outside = ipv4(0x0b000003);
  CHECK_RESULT(rk_report_record_repair(report, 0, RK_REPAIR_DONE, &outside, 1, NULL, 0, &error), RK_RESULT_NOT_IN_RANGE);
  CHECK_RESULT(rk_report_record_repair(report, 0, RK_REPAIR_DONE, &none, 1, NULL, 0, &error), RK_RESULT_NOT_IN_RANGE);
  CHECK_RESULT(rk_report_record_repair(report, 2, RK_REPAIR_DONE, &set, 1, NULL, 0, &error), RK_RESULT_INVALID_ARGUMENT);
  CHECK(!leaks[0].stays && leaks[0].remedy == RK_REMEDY_REPAIR);
  CHECK_OK(rk_report_record_repair(report, 0, RK_REPAIR_DONE, &set, 1, NULL, 0, &error));
  CHECK_OK(rk_report_range(report, 0, &counts));
  CHECK(counts.set == 1 && counts.clear == 0 && counts.leaked == 1 && counts.next == 3);
  CHECK_OK(rk_report_leaks(report, 0, leaks, 3, &n));
  CHECK(n == 1 && leaks[0].stays);
  CHECK_OK(rk_report_runs(report, 0, RK_VALUES_CLEAR, true, 0, runs, 4, &n, &next));
  CHECK(n == 0);
  /* That of the ports was not carried out: what the owners must do is left. */
  CHECK_OK(rk_report_record_repair(report, 1, RK_REPAIR_DONE, NULL, 0, NULL, 0, &error));
  CHECK_OK(rk_report_findings(report, 0, findings, 10, &n));
  CHECK(n == 5 && findings[0].remedy == RK_REMEDY_REPAIR && findings[1].remedy == RK_REMEDY_OWNER);
  rk_report_free(report);

  /* A range of which too little is free has a finding about itself. */
  report = run(NULL);
  CHECK_OK(rk_report_find_full_ranges(report, 100));
  CHECK_OK(rk_report_findings(report, sizeof expected / sizeof *expected, findings, 10, &n));
  CHECK(n == 2 && findings[0].reason == RK_REASON_RANGE_NEARLY_FULL && findings[0].value_kind == RK_VALUE_KIND_TEXT);
  CHECK(findings[1].subject_kind == RK_SUBJECT_KIND_RANGE && findings[1].subject == 1 && findings[1].range == 1);
  CHECK(findings[1].remedy == RK_REMEDY_OWNER && rk_reason_severity(findings[1].reason) == RK_SEVERITY_EXHAUSTED);
  rk_report_free(report);

  /* If two passes have to see it the leak stays once. */
  rk_leak_tracker *passes = NULL;
  CHECK_OK(rk_leak_tracker_new(2, 0, false, &passes, NULL));
  for (uint32_t clear = 0; clear < 2; clear++) {
    report = run(passes);
    CHECK_OK(rk_report_range(report, 0, &counts));
    CHECK(counts.clear == clear && counts.leaked == 1);
    rk_report_free(report);
  }
  rk_leak_tracker_free(passes);
  CHECK_OK(rk_leak_tracker_new(1, 0, true, &passes, NULL));
  report = run(passes);
  CHECK_OK(rk_report_range(report, 0, &counts));
  CHECK(counts.clear == 0 && counts.leaked == 1);
  rk_report_free(report);
  rk_leak_tracker_free(passes);
  return 0;
}

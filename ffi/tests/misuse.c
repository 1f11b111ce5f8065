/* Misuse of every function that can be misused: NULL, short buffers, wrong kinds and lengths, use after close. What
 * fails must leave its out-parameters alone. tests/surface.rs sees to it that no function is forgotten here. */
#include "check.h"

#define CHECK_NULL(call) CHECK_RESULT(call, RK_RESULT_NULL_POINTER)
#define CHECK_INVALID(call) CHECK_RESULT(call, RK_RESULT_INVALID_ARGUMENT)
#define CHECK_SMALL(call) CHECK_RESULT(call, RK_RESULT_BUFFER_TOO_SMALL)
#define CHECK_ENDED(call) CHECK_RESULT(call, RK_RESULT_ENDED)

static rk_value malformed(int which) {
  static const rk_value values[] = {
      {0, 0, RK_VALUE_KIND_ANY},        {0, 65536, RK_VALUE_KIND_PORT},      {1, 80, RK_VALUE_KIND_PORT},
      {0, 1ull << 32, RK_VALUE_KIND_IPV4}, {1, 1, RK_VALUE_KIND_IPV4},        {0, 0, RK_VALUE_KIND_TEXT},
      {0, 1ull << 32, RK_VALUE_KIND_NUMBER}, {1, 1, RK_VALUE_KIND_NUMBER},
      {0, 0, 2},                         {0, 0, 5},                           {0, 0, UINT32_MAX},
  };
  return values[which];
}
enum { MALFORMED = 9 };

/* A pointer that no alignment of more than one byte allows. */
static void *odd(void *pointer) { return (char *)pointer + 1; }

static char text[64];
static uint8_t data[64];
static size_t len;
static uint32_t number;
static rk_value value;
static const rk_value good = {0, 0x0a000001, RK_VALUE_KIND_IPV4};

static void names_and_values(void) {
  CHECK(strcmp(rk_result_name(RK_RESULT_INVALID_BATCH), "INVALID_BATCH") == 0);
  CHECK(strcmp(rk_result_name(15), "UNKNOWN") == 0);
  CHECK(strcmp(rk_result_name(UINT32_MAX), "UNKNOWN") == 0);
  CHECK(strcmp(rk_reason_name(0), "Unknown") == 0);
  CHECK(strcmp(rk_reason_name(1), "ClusterIPNotValid") == 0);
  CHECK(strcmp(rk_reason_name(14), "ClusterIPNotCanonical") == 0);
  CHECK(strcmp(rk_reason_name(21), "HealthCheckNodePortMissing") == 0);
  CHECK(strcmp(rk_reason_name(22), "Unknown") == 0);
  CHECK(strcmp(rk_reason_name(UINT32_MAX), "Unknown") == 0);
  CHECK(rk_reason_severity(0) == RK_SEVERITY_NONE && rk_reason_severity(UINT32_MAX) == RK_SEVERITY_NONE);
  CHECK(rk_reason_severity(RK_REASON_PORT_OUT_OF_RANGE) == RK_SEVERITY_BREAKS_TRAFFIC);
  CHECK(rk_reason_severity(RK_REASON_HEALTH_CHECK_NODE_PORT_MISSING + 1) == RK_SEVERITY_NONE);
  CHECK(rk_cluster_ip_records_of(UINT64_MAX, UINT32_MAX) == RK_CLUSTER_IP_RECORDS_OBJECTS);
  CHECK(rk_store_content_of(UINT64_MAX, UINT64_MAX, UINT64_MAX) == RK_STORE_CONTENT_CLUSTER);
  CHECK(rk_abi_version() == RK_ABI_VERSION);

  value = good;
  CHECK_NULL(rk_address_parse(NULL, 3, &value));
  CHECK_NULL(rk_address_parse(TEXT("10.0.0.1"), NULL));
  CHECK_INVALID(rk_address_parse(TEXT("10.0.0.1"), odd(&value)));
  CHECK_INVALID(rk_address_parse("x", SIZE_MAX, &value));
  CHECK_INVALID(rk_address_parse(NULL, 0, &value));
  CHECK_INVALID(rk_address_parse(TEXT("10.0.0.256"), &value));
  CHECK_INVALID(rk_address_parse(TEXT("fe80::1%eth0"), &value));
  CHECK_RESULT(rk_address_parse(TEXT("10.0.0.\xff"), &value), RK_RESULT_INVALID_UTF8);
  CHECK(same(value, good));

  CHECK_NULL(rk_value_text(&good, NULL, 1, &len));
  CHECK_NULL(rk_value_text(&good, text, sizeof text, NULL));
  CHECK_NULL(rk_value_text(NULL, text, sizeof text, &len));
  len = 0;
  text[0] = 'x';
  CHECK_SMALL(rk_value_text(&good, text, 7, &len));
  CHECK(len == 8 && text[0] == 'x');
  CHECK_SMALL(rk_value_text(&good, NULL, 0, &len));
  for (int i = 0; i < MALFORMED; i++) CHECK_INVALID(rk_value_text(AT(malformed(i)), text, sizeof text, &len));
}

static void ranges(const rk_range *range) {
  rk_error error;
  rk_range none = {.extent = 7};
  memset(&error, 0, sizeof error);
  CHECK_NULL(rk_range_parse(NULL, 1, RK_RANGE_KIND_CIDR, &none, &error));
  CHECK(strcmp(error.message, "spec is NULL") == 0);
  CHECK_NULL(rk_range_parse(TEXT("10.0.0.0/24"), RK_RANGE_KIND_CIDR, NULL, &error));
  CHECK_INVALID(rk_range_parse(TEXT("10.0.0.0/24"), RK_RANGE_KIND_CIDR, &none, odd(&error)));
  CHECK_INVALID(rk_range_parse("x", SIZE_MAX / 2 + 1, RK_RANGE_KIND_CIDR, &none, &error));
  CHECK_RESULT(rk_range_parse(TEXT("\xc3"), RK_RANGE_KIND_CIDR, &none, &error), RK_RESULT_INVALID_UTF8);
  CHECK_RESULT(rk_range_parse(NULL, 0, RK_RANGE_KIND_CIDR, &none, &error), RK_RESULT_INVALID_RANGE);
  CHECK_RESULT(rk_range_parse(TEXT("1-2-3"), RK_RANGE_KIND_PORTS, &none, NULL), RK_RESULT_INVALID_RANGE);
  CHECK(none.extent == 7);

  rk_range_description description;
  CHECK_NULL(rk_range_describe(NULL, &description));
  CHECK_NULL(rk_range_describe(range, NULL));
  CHECK_INVALID(rk_range_describe(range, odd(&description)));
  CHECK_NULL(rk_range_offset_of(NULL, &good, &number));
  CHECK_NULL(rk_range_offset_of(range, &good, NULL));
  CHECK_NULL(rk_range_offset_of(range, NULL, &number));
  for (int i = 0; i < MALFORMED; i++) CHECK_INVALID(rk_range_offset_of(range, AT(malformed(i)), &number));
  bool excludes;
  CHECK_NULL(rk_range_excludes(NULL, range, &excludes));
  CHECK_NULL(rk_range_excludes(range, NULL, &excludes));
  CHECK_NULL(rk_range_excludes(range, range, NULL));
  CHECK_NULL(rk_range_value_at(NULL, 0, &value));
  CHECK_NULL(rk_range_value_at(range, 0, NULL));
  CHECK_RESULT(rk_range_value_at(range, UINT32_MAX, &value), RK_RESULT_NOT_IN_RANGE);

  /* Not from rk_range_parse: nothing, host bits, lengths of the prefix, ports in the wrong order and too high, static
     bands as long as the range. */
  const rk_range forged[] = {
      {{0, 0, 0}, 0},
      {ipv4(0x0a000001), 24},
      {ipv4(0x0a000000), 33},
      {ipv4(0x0a000000), 256},
      {{0xfd00ull << 48, 0, RK_VALUE_KIND_IPV6}, 129},
      {{0xfd00ull << 48, 1, RK_VALUE_KIND_IPV6}, 64},
      {rk_value_port(2), 1},
      {rk_value_port(1), 65536},
      {{0, 65536, RK_VALUE_KIND_PORT}, 65537},
      {rk_value_number(16), 16},
      {rk_value_number(1), 0},
      {rk_value_number(1ull << 32), 7},
  };
  rk_allocator *allocator = NULL;
  for (size_t i = 0; i < sizeof forged / sizeof forged[0]; i++) {
    CHECK_INVALID(rk_range_describe(&forged[i], &description));
    CHECK_INVALID(rk_allocator_new(&forged[i], RK_STRATEGY_CONTIGUOUS, 1, &allocator, &error));
    CHECK(strcmp(error.message, "range is not a range that rk_range_parse or rk_service_cidr_parse has written") == 0);
  }
  CHECK(allocator == NULL);
}

static void service_cidrs(void) {
  rk_service_cidr cidr = {.prefix = 7};
  rk_error error;
  uint64_t offset = 7;
  CHECK_NULL(rk_service_cidr_parse(NULL, 1, &cidr, &error));
  CHECK_NULL(rk_service_cidr_parse(TEXT("10.0.0.0/24"), NULL, &error));
  CHECK_INVALID(rk_service_cidr_parse(TEXT("10.0.0.0/24"), &cidr, odd(&error)));
  CHECK_RESULT(rk_service_cidr_parse(TEXT("\xc3"), &cidr, &error), RK_RESULT_INVALID_UTF8);
  CHECK_RESULT(rk_service_cidr_parse(TEXT("10.0.0.0/33"), &cidr, &error), RK_RESULT_INVALID_RANGE);
  CHECK(strstr(error.message, "10.0.0.0/33") != NULL);
  CHECK_RESULT(rk_service_cidr_parse(NULL, 0, &cidr, NULL), RK_RESULT_INVALID_RANGE);
  CHECK(cidr.prefix == 7);
  CHECK_INVALID(rk_service_cidr_offset_of(&cidr, &good, &offset));
  cidr.network = rk_value_port(80);
  CHECK_INVALID(rk_service_cidr_offset_of(&cidr, &good, &offset));

  CHECK_OK(rk_service_cidr_parse(TEXT("10.0.0.0/24"), &cidr, NULL));
  rk_service_cidr_description description;
  CHECK_NULL(rk_service_cidr_describe(NULL, &description));
  CHECK_NULL(rk_service_cidr_describe(&cidr, NULL));
  CHECK_INVALID(rk_service_cidr_describe(&cidr, odd(&description)));
  CHECK_NULL(rk_service_cidr_offset_of(NULL, &good, &offset));
  CHECK_NULL(rk_service_cidr_offset_of(&cidr, &good, NULL));
  CHECK_NULL(rk_service_cidr_offset_of(&cidr, NULL, &offset));
  for (int i = 0; i < MALFORMED; i++) CHECK_INVALID(rk_service_cidr_offset_of(&cidr, AT(malformed(i)), &offset));
  CHECK_RESULT(rk_service_cidr_offset_of(&cidr, AT(rk_value_port(80)), &offset), RK_RESULT_NOT_IN_RANGE);
  CHECK(offset == 7);
  rk_value value;
  CHECK_NULL(rk_service_cidr_value_at(NULL, 0, &value));
  CHECK_NULL(rk_service_cidr_value_at(&cidr, 0, NULL));
  CHECK_RESULT(rk_service_cidr_value_at(&cidr, UINT64_MAX, &value), RK_RESULT_NOT_IN_RANGE);
}

static void allocators(const rk_range *range) {
  rk_allocator *a = NULL, *none = NULL;
  rk_error error;
  bool flag = false;
  rk_value values[2] = {good, good};

  CHECK_NULL(rk_allocator_new(NULL, RK_STRATEGY_CONTIGUOUS, 1, &a, NULL));
  CHECK_NULL(rk_allocator_new(range, RK_STRATEGY_CONTIGUOUS, 1, NULL, NULL));
  CHECK_INVALID(rk_allocator_new(range, 1, RK_STRATEGY_CONTIGUOUS, &a, NULL)); /* seed and strategy are swapped */
  CHECK(a == NULL);
  rk_allocator_free(NULL);
  CHECK_OK(rk_allocator_new(range, RK_STRATEGY_CONTIGUOUS, 1, &a, NULL));
  CHECK_NULL(rk_allocator_dry_run(NULL, &none));
  CHECK_NULL(rk_allocator_dry_run(a, NULL));
  CHECK_NULL(rk_allocator_allocate(NULL, &good));
  CHECK_NULL(rk_allocator_allocate(a, NULL));
  CHECK_NULL(rk_allocator_release(a, NULL, NULL));
  CHECK_NULL(rk_allocator_has(a, NULL, &flag));
  CHECK_NULL(rk_allocator_allocate_next(NULL, &value));
  CHECK_NULL(rk_allocator_allocate_next(a, NULL));
  CHECK_INVALID(rk_allocator_allocate_next(a, odd(&value)));
  CHECK_NULL(rk_allocator_release(NULL, &good, NULL));
  CHECK_NULL(rk_allocator_has(NULL, &good, &flag));
  CHECK_NULL(rk_allocator_has(a, &good, NULL));
  for (int i = 0; i < MALFORMED; i++) {
    CHECK_INVALID(rk_allocator_allocate(a, AT(malformed(i))));
    CHECK_INVALID(rk_allocator_release(a, AT(malformed(i)), NULL));
    CHECK_INVALID(rk_allocator_has(a, AT(malformed(i)), &flag));
  }
  CHECK_INVALID(rk_allocator_allocate(a, AT(rk_value_port(65536 + 80)))); /* not port 80 */
  CHECK_RESULT(rk_allocator_allocate(a, AT(rk_value_port(80))), RK_RESULT_NOT_IN_RANGE);
  CHECK_NULL(rk_allocator_used(NULL, &number));
  CHECK_NULL(rk_allocator_used(a, NULL));

  CHECK_NULL(rk_allocator_allocate_batch(NULL, values, 1, values + 1, &error));
  CHECK_NULL(rk_allocator_allocate_batch(a, NULL, 1, values, &error));
  CHECK_NULL(rk_allocator_allocate_batch(a, values, 1, NULL, &error));
  CHECK_INVALID(rk_allocator_allocate_batch(a, values, SIZE_MAX, values + 1, &error));
  CHECK_INVALID(rk_allocator_allocate_batch(a, values, SIZE_MAX / 24, values + 1, &error));
  CHECK_OK(rk_allocator_allocate_batch(a, NULL, 0, NULL, &error));
  values[0] = good;
  values[1] = malformed(1);
  rk_value got[2];
  CHECK_INVALID(rk_allocator_allocate_batch(a, values, 2, got, &error));
  CHECK(error.detail_kind == RK_DETAIL_REQUEST && error.detail.request == 1);
  CHECK_RESULT(rk_allocator_allocate_batch(a, values, 1, got, NULL), RK_RESULT_OK);
  CHECK_OK(rk_allocator_has(a, &good, &flag));
  CHECK(flag);

  CHECK_NULL(rk_allocator_snapshot(NULL, data, sizeof data, &len));
  CHECK_NULL(rk_allocator_snapshot(a, NULL, 1, &len));
  CHECK_NULL(rk_allocator_snapshot(a, data, sizeof data, NULL));
  CHECK_SMALL(rk_allocator_snapshot(a, NULL, 0, &len));
  CHECK(len == 1);
  CHECK_NULL(rk_allocator_restore(NULL, TEXT("10.0.0.0/24"), data, 1, &error));
  CHECK_NULL(rk_allocator_restore(a, NULL, 1, data, 1, &error));
  CHECK_NULL(rk_allocator_restore(a, TEXT("10.0.0.0/24"), NULL, 1, &error));
  CHECK_RESULT(rk_allocator_restore(a, TEXT("\xff"), data, 1, NULL), RK_RESULT_INVALID_UTF8);
  CHECK_RESULT(rk_allocator_restore(a, NULL, 0, data, 1, NULL), RK_RESULT_MISMATCHED_RANGE);
  CHECK_OK(rk_allocator_used(a, &number));
  CHECK(number == 1);

  rk_allocator_free(a);
}

static void leak_counters(const rk_range *range) {
  rk_leak_counters *c = NULL;
  rk_value due[2];
  rk_value leaked[2] = {good, rk_value_port(1)};
  uint8_t count = 7;
  CHECK_NULL(rk_leak_counters_new(NULL, 3, &c, NULL));
  CHECK_NULL(rk_leak_counters_new(range, 3, NULL, NULL));
  CHECK_INVALID(rk_leak_counters_new(range, 0, &c, NULL));
  CHECK(c == NULL);
  CHECK_OK(rk_leak_counters_new(range, 1, &c, NULL));
  CHECK_NULL(rk_leak_counters_advance(NULL, leaked, 1, due, 2, &len));
  CHECK_NULL(rk_leak_counters_advance(c, NULL, 1, due, 2, &len));
  CHECK_NULL(rk_leak_counters_advance(c, leaked, 1, NULL, 2, &len));
  CHECK_NULL(rk_leak_counters_advance(c, leaked, 1, due, 2, NULL));
  CHECK_SMALL(rk_leak_counters_advance(c, leaked, 1, NULL, 0, &len));
  CHECK(len == 1);
  CHECK_RESULT(rk_leak_counters_advance(c, leaked, 2, due, 2, &len), RK_RESULT_NOT_IN_RANGE);
  leaked[1] = malformed(1);
  CHECK_INVALID(rk_leak_counters_advance(c, leaked, 2, due, 2, &len));
  CHECK_NULL(rk_leak_counters_count(NULL, &good, &count));
  CHECK_NULL(rk_leak_counters_count(c, &good, NULL));
  CHECK_NULL(rk_leak_counters_count(c, NULL, &count));
  CHECK_INVALID(rk_leak_counters_count(c, AT(malformed(0)), &count));
  CHECK_RESULT(rk_leak_counters_count(c, AT(rk_value_port(80)), &count), RK_RESULT_NOT_IN_RANGE);
  CHECK(count == 7);
  rk_leak_counters_free(c);
  rk_leak_counters_free(NULL);
}

static void range_allocations(void) {
  rk_range_allocation *o = NULL;
  rk_error error;
  CHECK_NULL(rk_range_allocation_new(RK_FORM_JSON, NULL));
  CHECK_INVALID(rk_range_allocation_new(0, &o));
  CHECK_INVALID(rk_range_allocation_new(4, &o));
  CHECK_NULL(rk_range_allocation_decode(NULL, 1, &o, &error));
  CHECK_NULL(rk_range_allocation_decode(data, 1, NULL, &error));
  CHECK_INVALID(rk_range_allocation_decode(data, SIZE_MAX, &o, &error));
  CHECK_RESULT(rk_range_allocation_decode(NULL, 0, &o, &error), RK_RESULT_INVALID_OBJECT);
  CHECK(error.detail_kind == RK_DETAIL_BYTE && error.detail.byte == 0);
  CHECK_RESULT(rk_range_allocation_decode((const uint8_t *)"{", 1, &o, NULL), RK_RESULT_INVALID_OBJECT);
  CHECK(o == NULL);
  CHECK_OK(rk_range_allocation_new(RK_FORM_PROTOBUF, &o));
  CHECK_NULL(rk_range_allocation_set(NULL, TEXT("1-2"), data, 1, NULL));
  CHECK_NULL(rk_range_allocation_set(o, NULL, 1, data, 1, NULL));
  CHECK_NULL(rk_range_allocation_set(o, TEXT("1-2"), NULL, 1, NULL));
  CHECK_RESULT(rk_range_allocation_set(o, TEXT("\x80"), data, 1, NULL), RK_RESULT_INVALID_UTF8);
  CHECK_OK(rk_range_allocation_set(o, TEXT("1-2"), data, 2, NULL));
  CHECK_NULL(rk_range_allocation_range(NULL, text, sizeof text, &len));
  CHECK_NULL(rk_range_allocation_range(o, NULL, 1, &len));
  CHECK_NULL(rk_range_allocation_range(o, text, sizeof text, NULL));
  CHECK_SMALL(rk_range_allocation_range(o, text, 2, &len));
  CHECK(len == 3);
  CHECK_NULL(rk_range_allocation_data(NULL, data, sizeof data, &len));
  CHECK_NULL(rk_range_allocation_data(o, NULL, 1, &len));
  CHECK_NULL(rk_range_allocation_data(o, data, sizeof data, NULL));
  CHECK_SMALL(rk_range_allocation_data(o, data, 1, &len));
  CHECK(len == 2);
  CHECK_NULL(rk_range_allocation_encode(NULL, data, sizeof data, &len));
  CHECK_NULL(rk_range_allocation_encode(o, NULL, 1, &len));
  CHECK_NULL(rk_range_allocation_encode(o, data, sizeof data, NULL));
  CHECK_SMALL(rk_range_allocation_encode(o, data, 3, &len));
  CHECK(len > 3);
  rk_range_allocation_free(o);
  rk_range_allocation_free(NULL);
}

/* Every way in which a batch of Services can be malformed, and that nothing of it counts. */
static void batches(rk_audit *a) {
  static const struct {
    uint32_t words[8];
    size_t words_len;
    const char *text;
    size_t count;
  } bad[] = {
      {{1, 0, 8}, 3, "10.0.0.1", 2},                                /* fewer Services than claimed */
      {{1, 0, 8}, 3, "10.0.0.1", SIZE_MAX},                         /* far fewer */
      {{1, 0, 8}, 3, "10.0.0.1", 0},                                /* words left over */
      {{0}, 0, "x", 0},                                             /* text left over */
      {{1, 0, 7}, 3, "10.0.0.1", 1},                                /* text left over behind a Service */
      {{1, 0, 9}, 3, "10.0.0.1", 1},                                /* text runs out */
      {{1, 0, 0xfffffffe}, 3, "10.0.0.1", 1},                       /* text runs out by far */
      {{1}, 1, "", 1},                                              /* cut after the first word */
      {{0, 0}, 2, "", 1},                                           /* no entry */
      {{2, 0, 8}, 3, "10.0.0.1", 1},                                /* entries run out */
      {{0xffff, 0, 8}, 3, "10.0.0.1", 1},                           /* by far */
      {{1, 0, RK_SAME_TEXT}, 3, "", 1},                             /* the same as nothing */
      {{1 | 1 << 16, 0, 8}, 3, "10.0.0.1", 1},                      /* ports run out */
      {{1 | 1 << 16, 0, 8, 80}, 4, "10.0.0.1", 1},                  /* in the middle of one */
      {{1 | 1 << 16, 0, 8, 80, 3}, 5, "10.0.0.1", 1},               /* unknown protocol */
      {{1 | 1 << 16, 0, 8, 80, 15}, 5, "10.0.0.1", 1},              /* unknown protocol */
      {{1 | 1 << 16, 0, 8, 80, 16 + 1}, 5, "10.0.0.1", 1},          /* protocol's text runs out */
      {{2, 0, 1, 1}, 4, "\xc3\xa4", 1},                             /* cut inside a character */
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    rk_services services = {{(uint32_t *)bad[i].words, bad[i].words_len, 0, (char *)bad[i].text, strlen(bad[i].text), 0, bad[i].count}};
    CHECK_RESULT(rk_audit_observe_services(a, NULL, &services, NULL), RK_RESULT_INVALID_BATCH);
  }
  uint32_t words[] = {1, 0, 1};
  char invalid[] = "\xff", valid[] = "x";
  rk_services services = {{words, 3, 0, invalid, 1, 0, 1}};
  CHECK_RESULT(rk_audit_observe_services(a, NULL, &services, NULL), RK_RESULT_INVALID_BATCH);
  services.batch.text = NULL;
  CHECK_NULL(rk_audit_observe_services(a, NULL, &services, NULL));
  services.batch.text = valid;
  services.batch.words = NULL;
  CHECK_NULL(rk_audit_observe_services(a, NULL, &services, NULL));
  services.batch.words = odd(words);
  CHECK_INVALID(rk_audit_observe_services(a, NULL, &services, NULL));
  services.batch.words = words;
  services.batch.words_len = SIZE_MAX / 4;
  CHECK_INVALID(rk_audit_observe_services(a, NULL, &services, NULL));
  CHECK_NULL(rk_audit_observe_services(NULL, NULL, &services, NULL));
  CHECK_NULL(rk_audit_observe_services(a, NULL, NULL, NULL));
  rk_claim claims[2];
  size_t n = 77;
  CHECK_INVALID(rk_services_claims(&services, 0, claims, 2, &n, NULL));
  CHECK_NULL(rk_services_claims(NULL, 0, claims, 2, &n, NULL));
  services = (rk_services){{0}};
  CHECK_NULL(rk_services_claims(&services, 0, NULL, 2, &n, NULL));
  CHECK_NULL(rk_services_claims(&services, 0, claims, 2, NULL, NULL));
  CHECK(n == 77);
  CHECK_OK(rk_services_claims(&services, 9, NULL, 0, &n, NULL));
  CHECK(n == 0);
}

static void audit(const rk_range *range) {
  rk_leak_tracker *passes = NULL;
  rk_audit *a = NULL;
  rk_report *o = NULL;
  rk_error error;
  CHECK_NULL(rk_leak_tracker_new(3, 1, false, NULL, NULL));
  CHECK_INVALID(rk_leak_tracker_new(0, 1, false, &passes, NULL));
  CHECK_INVALID(rk_leak_tracker_new(0, 1, true, &passes, NULL));
  CHECK_OK(rk_leak_tracker_new(3, 1, false, &passes, NULL));
  CHECK_NULL(rk_audit_new(NULL, false, NULL, NULL));
  CHECK_OK(rk_audit_new(NULL, false, NULL, &a));

  CHECK_NULL(rk_audit_add_bitmap(NULL, range, NULL, 0, NULL, 0, &error));
  CHECK_NULL(rk_audit_add_bitmap(a, NULL, NULL, 0, NULL, 0, &error));
  CHECK_NULL(rk_audit_add_bitmap(a, range, NULL, 1, NULL, 0, &error));
  CHECK_NULL(rk_audit_add_bitmap(a, range, NULL, 0, NULL, 1, &error));
  CHECK_RESULT(rk_audit_add_bitmap(a, range, TEXT("\xff"), NULL, 0, &error), RK_RESULT_INVALID_UTF8);
  CHECK_RESULT(rk_audit_add_bitmap(a, range, TEXT("10.0.0.0/40"), NULL, 0, &error), RK_RESULT_INVALID_RANGE);
  CHECK_RESULT(rk_audit_add_bitmap(a, range, TEXT("1-9"), NULL, 0, &error), RK_RESULT_MISMATCHED_RANGE);
  data[0] = 1;
  CHECK_RESULT(rk_audit_add_bitmap(a, range, NULL, 0, data, 33, &error), RK_RESULT_BITS_PAST_RANGE);
  CHECK(error.detail_kind == RK_DETAIL_BITS && error.detail.bits.highest_offset == 256 && error.detail.bits.byte == 0);
  CHECK_OK(rk_audit_add_bitmap(a, range, NULL, 0, NULL, 0, NULL));
  batches(a);

  CHECK_NULL(rk_audit_finish(NULL, &o, NULL));
  CHECK_NULL(rk_audit_finish(a, NULL, NULL));
  rk_audit *counted = NULL;
  CHECK_OK(rk_audit_new(passes, false, NULL, &counted));
  rk_leak_tracker_free(passes); /* an audit may outlive it */
  rk_leak_tracker_free(NULL);
  CHECK_OK(rk_audit_finish(counted, &o, NULL));
  rk_report_free(o);
  o = NULL;
  CHECK_ENDED(rk_audit_finish(counted, &o, NULL));
  CHECK(o == NULL);
  rk_audit_free(counted);

  memory m;
  rk_services services = {batch_in(&m)};
  add_service(&services, "10.9.9.9", 0, 0);
  CHECK_OK(rk_audit_observe_services(a, NULL, &services, NULL));
  CHECK_OK(rk_audit_finish(a, &o, NULL));
  CHECK_ENDED(rk_audit_finish(a, &o, NULL));
  CHECK_ENDED(rk_audit_observe_services(a, NULL, &services, NULL));
  CHECK_ENDED(rk_audit_add_bitmap(a, range, NULL, 0, NULL, 0, &error));
  rk_audit_free(a);
  rk_audit_free(NULL);

  rk_finding findings[1];
  rk_range_report counts;
  rk_run runs[1];
  rk_offset_state state;
  rk_cell cells[4];
  uint64_t observed = 0, next = 0;
  /* Of the batches only the last one counts. */
  CHECK_NULL(rk_report_record_repair(NULL, 0, RK_REPAIR_DONE, NULL, 0, NULL, 0, &error));
  CHECK_NULL(rk_report_record_repair(o, 0, RK_REPAIR_DONE, NULL, 1, NULL, 0, &error));
  CHECK_INVALID(rk_report_record_repair(o, 0, RK_REPAIR_DONE, AT((rk_value){.kind = 10}), 1, NULL, 0, &error));
  CHECK_INVALID(rk_report_record_repair(o, 9, RK_REPAIR_DONE, NULL, 0, NULL, 0, &error));
  CHECK_INVALID(rk_report_record_repair(o, 0, 3, NULL, 0, NULL, 0, &error));
  CHECK_NULL(rk_report_find_full_ranges(NULL, 5));
  CHECK_INVALID(rk_report_find_full_ranges(o, 101));
  CHECK_OK(rk_report_services(o, &observed));
  CHECK(observed == 1);
  CHECK_NULL(rk_report_services(NULL, &observed));
  CHECK_NULL(rk_report_services(o, NULL));
  CHECK_NULL(rk_report_findings(NULL, 0, findings, 1, &len));
  CHECK_NULL(rk_report_findings(o, 0, NULL, 1, &len));
  CHECK_NULL(rk_report_findings(o, 0, findings, 1, NULL));
  CHECK_OK(rk_report_findings(o, SIZE_MAX, findings, 1, &len));
  CHECK(len == 0);
  size_t ends[2];
  CHECK_NULL(rk_report_finding_texts(NULL, 0, text, sizeof text, ends, 1, &len));
  CHECK_NULL(rk_report_finding_texts(o, 0, NULL, 1, ends, 1, &len));
  CHECK_NULL(rk_report_finding_texts(o, 0, text, sizeof text, NULL, 1, &len));
  CHECK_NULL(rk_report_finding_texts(o, 0, text, sizeof text, ends, 1, NULL));
  CHECK_INVALID(rk_report_finding_texts(o, 0, text, sizeof text, odd(ends), 1, &len));
  CHECK_SMALL(rk_report_finding_texts(o, 0, text, 7, ends, 1, &len));
  CHECK_OK(rk_report_finding_texts(o, SIZE_MAX, NULL, 0, NULL, 0, &len));
  CHECK_INVALID(rk_report_finding_texts(o, 0, text, sizeof text, ends, SIZE_MAX, &len));
  CHECK(len == 0);
  CHECK_NULL(rk_report_range(NULL, 0, &counts));
  CHECK_NULL(rk_report_range(o, 0, NULL));
  CHECK_INVALID(rk_report_range(o, 1, &counts));
  CHECK_NULL(rk_report_runs(NULL, 0, RK_VALUES_SET, true, 0, runs, 1, &len, &next));
  CHECK_NULL(rk_report_runs(o, 0, RK_VALUES_SET, true, 0, NULL, 1, &len, &next));
  CHECK_NULL(rk_report_runs(o, 0, RK_VALUES_SET, true, 0, runs, 1, NULL, &next));
  CHECK_NULL(rk_report_runs(o, 0, RK_VALUES_SET, true, 0, runs, 1, &len, NULL));
  CHECK_INVALID(rk_report_runs(o, 1, RK_VALUES_SET, true, 0, runs, 1, &len, &next));
  CHECK_INVALID(rk_report_runs(o, 0, 0, true, 0, runs, 1, &len, &next));
  CHECK_INVALID(rk_report_runs(o, 0, RK_VALUES_NEXT + 1, true, 0, runs, 1, &len, &next));
  CHECK_NULL(rk_report_snapshot(NULL, 0, RK_VALUES_NEXT, data, sizeof data, &len));
  CHECK_NULL(rk_report_snapshot(o, 0, RK_VALUES_NEXT, NULL, 1, &len));
  CHECK_NULL(rk_report_snapshot(o, 0, RK_VALUES_NEXT, data, sizeof data, NULL));
  CHECK_INVALID(rk_report_snapshot(o, 1, RK_VALUES_NEXT, data, sizeof data, &len));
  CHECK_INVALID(rk_report_snapshot(o, 0, RK_REPLACE_ONCE, data, sizeof data, &len));
  rk_leak leaks[1];
  CHECK_NULL(rk_report_leaks(NULL, 0, leaks, 1, &len));
  CHECK_NULL(rk_report_leaks(o, 0, NULL, 1, &len));
  CHECK_NULL(rk_report_leaks(o, 0, leaks, 1, NULL));
  CHECK_OK(rk_report_leaks(o, SIZE_MAX, leaks, 1, &len));
  CHECK(len == 0);
  CHECK_NULL(rk_report_state(NULL, 0, &good, &state));
  CHECK_NULL(rk_report_state(o, 0, &good, NULL));
  CHECK_NULL(rk_report_state(o, 0, NULL, &state));
  CHECK_INVALID(rk_report_state(o, 1, &good, &state));
  for (int i = 0; i < MALFORMED; i++) CHECK_INVALID(rk_report_state(o, 0, AT(malformed(i)), &state));
  CHECK_NULL(rk_report_occupancy(NULL, 0, 4, cells, 4, &len));
  CHECK_NULL(rk_report_occupancy(o, 0, 4, NULL, 4, &len));
  CHECK_NULL(rk_report_occupancy(o, 0, 4, cells, 4, NULL));
  CHECK_INVALID(rk_report_occupancy(o, 1, 4, cells, 4, &len));
  CHECK_SMALL(rk_report_occupancy(o, 0, 4, cells, 3, &len));
  CHECK(len == 4);
  rk_report_free(o);
  rk_report_free(NULL);
}

static void judges(void) {
  uint32_t verdict = 77;
  uint64_t wait = 77;
  CHECK_NULL(rk_ip_address_judge(true, RK_PARENT_USES, 0, 0, NULL, &wait));
  CHECK_NULL(rk_ip_address_judge(true, RK_PARENT_USES, 0, 0, &verdict, NULL));
  CHECK_INVALID(rk_ip_address_judge(true, 4, 0, 0, &verdict, &wait));
  CHECK(verdict == 77 && wait == 77);
  CHECK_OK(rk_ip_address_judge(true, RK_PARENT_MISSING, 1, UINT64_MAX, &verdict, &wait));
  CHECK(verdict == RK_IP_ADDRESS_WAIT && wait == UINT64_MAX - 1);
  rk_address_object object = {.managed = true, .labelled = true, .parent = 5};
  CHECK_NULL(rk_cluster_ip_judge(NULL, NULL));
  CHECK_INVALID(rk_cluster_ip_judge(&object, &verdict));
  object.parent = RK_PARENT_SELF;
  CHECK_OK(rk_cluster_ip_judge(&object, &verdict));
  CHECK(verdict == RK_CLUSTER_IP_KEEP);
  CHECK_OK(rk_cluster_ip_judge(NULL, &verdict));
  CHECK(verdict == RK_CLUSTER_IP_CREATE);
}

static void changes(const rk_range *range) {
  uint8_t before[1] = {3}, after[1] = {6}, large[40] = {1};
  rk_value values[3];
  bool allocated[3];
  size_t n = 0;
  uint32_t next = 0;
  CHECK_NULL(rk_range_changes(NULL, before, 1, after, 1, 0, values, allocated, 3, &n, &next, NULL));
  CHECK_NULL(rk_range_changes(range, NULL, 1, after, 1, 0, values, allocated, 3, &n, &next, NULL));
  CHECK_NULL(rk_range_changes(range, before, 1, NULL, 1, 0, values, allocated, 3, &n, &next, NULL));
  CHECK_NULL(rk_range_changes(range, before, 1, after, 1, 0, NULL, allocated, 3, &n, &next, NULL));
  CHECK_NULL(rk_range_changes(range, before, 1, after, 1, 0, values, NULL, 3, &n, &next, NULL));
  CHECK_NULL(rk_range_changes(range, before, 1, after, 1, 0, values, allocated, 3, NULL, &next, NULL));
  CHECK_NULL(rk_range_changes(range, before, 1, after, 1, 0, values, allocated, 3, &n, NULL, NULL));
  CHECK_RESULT(rk_range_changes(range, before, 1, large, 40, 0, values, allocated, 3, &n, &next, NULL), RK_RESULT_BITS_PAST_RANGE);
  CHECK_OK(rk_range_changes(range, before, 1, after, 1, 0, values, allocated, 3, &n, &next, NULL));
  CHECK(n == 2 && !allocated[0] && allocated[1] && values[1].low == values[0].low + 2);
  CHECK_OK(rk_range_changes(range, before, 1, after, 1, 1, values, allocated, 3, &n, &next, NULL));
  CHECK(n == 1 && allocated[0]);
}

static void audit_of_ip_addresses(void) {
  rk_audit *a = NULL;
  rk_report *o = NULL;
  rk_error error;
  uint64_t observed = 0;
  CHECK_NULL(rk_audit_new(NULL, true, NULL, NULL));
  const int64_t now = INT64_MIN;
  CHECK_NULL(rk_audit_new(NULL, true, &now, NULL));
  CHECK_OK(rk_audit_new(NULL, true, &now, &a));
  CHECK_NULL(rk_audit_add_service_cidr(NULL, TEXT("10.0.0.0/24"), true, &error));
  CHECK_NULL(rk_audit_add_service_cidr(a, NULL, 1, true, &error));
  CHECK_RESULT(rk_audit_add_service_cidr(a, TEXT("\xff"), true, &error), RK_RESULT_INVALID_UTF8);
  CHECK_RESULT(rk_audit_add_service_cidr(a, TEXT("30000-30001"), true, NULL), RK_RESULT_INVALID_RANGE);
  CHECK_OK(rk_audit_add_service_cidr(a, TEXT("10.0.0.0/24"), true, NULL));

  memory memories[2];
  rk_services services = {batch_in(&memories[0])};
  rk_service_names names = {batch_in(&memories[1])};
  add_service(&services, "10.9.9.9", 0, 0);
  CHECK_OK(rk_service_names_add(&names, rk_text_of("default"), rk_text_of("a"), 0, 0));
  const rk_service_names all_names = names;
  CHECK_NULL(rk_audit_observe_services(NULL, &names, &services, NULL));
  CHECK_INVALID(rk_audit_observe_services(a, NULL, &services, NULL));
  CHECK_NULL(rk_audit_observe_services(a, &names, NULL, NULL));
  names.batch.words_len = 1;
  CHECK_RESULT(rk_audit_observe_services(a, &names, &services, NULL), RK_RESULT_INVALID_BATCH);
  rk_batch_clear(&names.batch);
  CHECK_RESULT(rk_audit_observe_services(a, &names, &services, NULL), RK_RESULT_INVALID_BATCH);
  uint32_t words[11] = {0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0};
  char x[] = "x";
  rk_ip_addresses objects = {{words, 10, 0, x, 1, 0, 1}};
  CHECK_RESULT(rk_audit_observe_ip_addresses(a, &objects, NULL), RK_RESULT_INVALID_BATCH);
  objects.batch.words_len = 11;
  objects.batch.text_len = 0;
  CHECK_RESULT(rk_audit_observe_ip_addresses(a, &objects, NULL), RK_RESULT_INVALID_BATCH);
  objects.batch.count = SIZE_MAX;
  CHECK_RESULT(rk_audit_observe_ip_addresses(a, &objects, NULL), RK_RESULT_INVALID_BATCH);
  CHECK_NULL(rk_audit_observe_ip_addresses(NULL, &objects, NULL));
  CHECK_NULL(rk_audit_observe_ip_addresses(a, NULL, NULL));
  names = all_names;
  CHECK_OK(rk_audit_observe_services(a, &names, &services, NULL));
  CHECK_NULL(rk_audit_finish(NULL, &o, NULL));
  CHECK_NULL(rk_audit_finish(a, NULL, NULL));
  CHECK_OK(rk_audit_finish(a, &o, NULL));
  CHECK_ENDED(rk_audit_finish(a, &o, NULL));
  CHECK_ENDED(rk_audit_add_service_cidr(a, TEXT("10.0.0.0/24"), true, NULL));
  CHECK_ENDED(rk_audit_observe_services(a, &names, &services, NULL));
  objects.batch.text_len = 1;
  objects.batch.count = 1;
  CHECK_ENDED(rk_audit_observe_ip_addresses(a, &objects, NULL));
  rk_audit_free(a);
  rk_audit_free(NULL);
  CHECK_NULL(rk_report_find_full_ranges(NULL, 5));
  CHECK_INVALID(rk_report_find_full_ranges(o, 101));
  CHECK_OK(rk_report_services(o, &observed));
  CHECK(observed == 1);
  rk_report_free(o);

  CHECK_OK(rk_audit_new(NULL, true, NULL, &a));
  CHECK_NULL(rk_audit_check_cluster(NULL, RK_PRESENCE_MISSING, RK_PRESENCE_MISSING, RK_PRESENCE_MISSING, 0, true, &error));
  CHECK_INVALID(rk_audit_check_cluster(a, 5, RK_PRESENCE_MISSING, RK_PRESENCE_MISSING, 0, true, &error));
  CHECK_OK(rk_audit_check_cluster(a, RK_PRESENCE_MISSING, RK_PRESENCE_MISSING, RK_PRESENCE_MISSING, 0, true, &error));
  CHECK_OK(rk_audit_observe_services(a, &names, &services, NULL));
  CHECK_OK(rk_audit_check_cluster(a, RK_PRESENCE_MISSING, RK_PRESENCE_MISSING, RK_PRESENCE_MISSING, 0, true, &error));
  /* What is recorded comes before the first Service. */
  CHECK_INVALID(rk_audit_add_service_cidr(a, TEXT("10.0.0.0/24"), true, &error));
  CHECK_INVALID(rk_audit_observe_ip_addresses(a, &objects, NULL));
  rk_audit_free(a);

  /* An audit of bitmaps takes none of this. */
  CHECK_OK(rk_audit_new(NULL, false, NULL, &a));
  CHECK_NULL(rk_audit_add_unseen(NULL, NULL, NULL, 0, &error));
  CHECK_NULL(rk_audit_add_unseen(a, NULL, NULL, 1, &error));
  CHECK_OK(rk_audit_add_unseen(a, NULL, NULL, 0, NULL));
  CHECK_INVALID(rk_audit_add_service_cidr(a, TEXT("10.0.0.0/24"), true, &error));
  CHECK_INVALID(rk_audit_observe_ip_addresses(a, &objects, NULL));
  rk_audit_free(a);
}

/* All changes of an event are checked before the first of them is applied; alone, it would be. */
static void changes_of_an_event(void) {
  char object[] = "{\"kind\":\"RangeAllocation\",\"apiVersion\":\"v1\",\"range\":\"10.0.0.0/24\",\"data\":\"AQ==\"}";
  const uint8_t *value = (const uint8_t *)object;
  const size_t value_len = sizeof object - 1;
  const rk_key changes[] = {{{6, 2, 5}, value, value_len}, {{7, 3, 5}, NULL, 1}};
  rk_range range = range_of("10.0.0.0/24");
  rk_committer *c = NULL;
  rk_known known;
  rk_step step;
  uint64_t ticket = 0;
  CHECK_OK(rk_committer_new(&range, RK_STRATEGY_CONTIGUOUS, 1000, RK_REPLACE_ALWAYS, 1, &c, NULL));
  rk_operation read = {.kind = RK_OPERATION_READ, .deadline = UINT64_MAX};
  CHECK_OK(rk_committer_submit(c, &read, 1, NULL, 0, &ticket, NULL));
  CHECK_OK(rk_committer_poll(c, 0, &step));
  CHECK(step.kind == RK_STEP_READ);
  rk_event event = {.kind = RK_EVENT_CURRENT, .data.current = {{1, 5, 1}, {{5, 1, 5}, value, value_len}}};
  CHECK_OK(rk_committer_handle(c, &event, 0));
  for (size_t n = 2; n > 0; n--) {
    event = (rk_event){.kind = RK_EVENT_WATCHED, .data.watched = {changes, n}};
    CHECK_RESULT(rk_committer_handle(c, &event, 0), n == 2 ? RK_RESULT_NULL_POINTER : RK_RESULT_OK);
    CHECK_OK(rk_committer_known(c, &known));
    CHECK(known.revision == (n == 2 ? 5 : 6) && known.used == 1);
  }
  rk_committer_free(c);
}

/* Each step of a pass in a stage that has no such step. */
static void not_reading(rk_repair_pass *pass, rk_committer *c, rk_error *error) {
  bool needs_fence;
  rk_audit *audit = NULL;
  CHECK_INVALID(rk_repair_pass_begin(pass, c, error));
  CHECK_INVALID(rk_repair_pass_read(pass, c, 1, NULL, 0, 1, &needs_fence, error));
  CHECK_INVALID(rk_repair_pass_fenced(pass, c, 2, 1, error));
  CHECK_INVALID(rk_repair_pass_audit(pass, false, NULL, &audit, error));
  CHECK(error->message_len > 0 && audit == NULL);
}

static void steps_of_a_pass(rk_committer *c) {
  rk_leak_tracker *passes = NULL;
  rk_repair_pass *pass = NULL, *later = NULL;
  rk_audit *audit = NULL, *other = NULL;
  rk_report *report = NULL;
  rk_committer *of_others = NULL;
  rk_error error;
  uint64_t ticket = 77;
  bool needs_fence = true;
  CHECK_OK(rk_leak_tracker_new(3, UINT64_MAX, false, &passes, NULL));
  CHECK_OK(rk_audit_new(NULL, false, NULL, &other));
  rk_range range = range_of("10.0.0.0/25");
  CHECK_OK(rk_committer_new(&range, RK_STRATEGY_CONTIGUOUS, 1000, RK_REPLACE_ALWAYS, 1, &of_others, NULL));
  CHECK_NULL(rk_repair_pass_new(NULL, &pass));
  CHECK_NULL(rk_repair_pass_new(passes, NULL));
  CHECK_OK(rk_repair_pass_new(passes, &pass));

  CHECK_NULL(rk_repair_pass_begin(NULL, c, &error));
  CHECK_NULL(rk_repair_pass_begin(pass, NULL, &error));
  CHECK_INVALID(rk_repair_pass_read(pass, c, 1, NULL, 0, 1, &needs_fence, &error)); /* not begun */
  CHECK_OK(rk_repair_pass_begin(pass, c, NULL));
  CHECK_INVALID(rk_repair_pass_begin(pass, c, NULL)); /* twice */
  CHECK_INVALID(rk_repair_pass_fenced(pass, c, 2, 1, &error)); /* not read */
  CHECK_NULL(rk_repair_pass_read(pass, c, 1, NULL, 0, 1, NULL, &error));
  CHECK_NULL(rk_repair_pass_read(NULL, c, 1, NULL, 0, 1, &needs_fence, &error));
  CHECK_NULL(rk_repair_pass_read(pass, NULL, 1, NULL, 0, 1, &needs_fence, &error));
  CHECK_NULL(rk_repair_pass_read(pass, c, 1, NULL, 1, 1, &needs_fence, &error));
  uint8_t long_data[1 << 10];
  memset(long_data, 0xff, sizeof long_data);
  CHECK_RESULT(rk_repair_pass_read(pass, c, 1, long_data, sizeof long_data, 1, &needs_fence, &error), RK_RESULT_BITS_PAST_RANGE);
  CHECK(needs_fence);
  CHECK_OK(rk_repair_pass_read(pass, c, UINT64_MAX, NULL, 0, UINT64_MAX, &needs_fence, NULL)); /* nothing like that was read */
  CHECK(needs_fence); /* no object was ever read */
  CHECK_NULL(rk_repair_pass_fenced(NULL, c, UINT64_MAX, 1, &error));
  CHECK_NULL(rk_repair_pass_fenced(pass, NULL, UINT64_MAX, 1, &error));
  CHECK_INVALID(rk_repair_pass_fenced(pass, of_others, UINT64_MAX, 1, &error)); /* not begun */
  CHECK_INVALID(rk_repair_pass_fenced(pass, c, UINT64_MAX - 1, 1, &error)); /* before the read */
  CHECK_INVALID(rk_repair_pass_fenced(pass, c, UINT64_MAX, 0, &error)); /* no look has this number */
  CHECK_INVALID(rk_repair_pass_read(pass, c, 1, NULL, 0, 1, &needs_fence, &error)); /* twice */
  CHECK_NULL(rk_repair_pass_audit(NULL, false, NULL, &audit, &error));
  CHECK_NULL(rk_repair_pass_audit(pass, false, NULL, NULL, &error));
  CHECK_NULL(rk_repair_pass_finish(NULL, other, &report, &error));
  CHECK_NULL(rk_repair_pass_finish(pass, NULL, &report, &error));
  CHECK_NULL(rk_repair_pass_finish(pass, other, NULL, &error));
  CHECK_INVALID(rk_repair_pass_finish(pass, other, &report, &error)); /* it has no audit yet */
  CHECK_INVALID(rk_committer_submit_repair(c, pass, 0, false, UINT64_MAX, &ticket, &error));
  CHECK_INVALID(rk_repair_pass_check(pass, c, &error));
  CHECK_OK(rk_repair_pass_audit(pass, false, NULL, &audit, &error));
  not_reading(pass, c, &error);
  CHECK_INVALID(rk_audit_finish(audit, &report, &error)); /* that is the pass's to do */
  CHECK(strcmp(error.message, "the audit is that of a repair pass, which finishes it") == 0);
  CHECK_INVALID(rk_committer_submit_repair(c, pass, 0, false, UINT64_MAX, &ticket, NULL));
  CHECK_OK(rk_repair_pass_finish(pass, audit, &report, &error));
  not_reading(pass, c, &error);
  CHECK_INVALID(rk_repair_pass_finish(pass, other, &report, &error));
  CHECK_NULL(rk_committer_submit_repair(NULL, pass, 0, false, UINT64_MAX, &ticket, &error));
  CHECK_NULL(rk_committer_submit_repair(c, NULL, 0, false, UINT64_MAX, &ticket, &error));
  CHECK_NULL(rk_committer_submit_repair(c, pass, 0, false, UINT64_MAX, NULL, &error));
  CHECK_INVALID(rk_committer_submit_repair(of_others, pass, 0, false, UINT64_MAX, &ticket, &error));
  CHECK(ticket == 77);
  CHECK_NULL(rk_repair_pass_check(NULL, c, &error));
  CHECK_NULL(rk_repair_pass_check(pass, NULL, &error));
  CHECK_INVALID(rk_repair_pass_check(pass, of_others, &error));
  CHECK_OK(rk_repair_pass_check(pass, c, &error));

  /* A later pass takes the place of an earlier one, and what has failed is over. */
  CHECK_OK(rk_repair_pass_new(passes, &later));
  CHECK_INVALID(rk_committer_submit_repair(c, pass, 0, false, UINT64_MAX, &ticket, &error));
  CHECK_OK(rk_repair_pass_begin(later, c, &error));
  rk_audit *none = NULL;
  CHECK_INVALID(rk_repair_pass_audit(later, false, NULL, &none, &error)); /* not read */
  not_reading(later, c, &error);
  CHECK_INVALID(rk_repair_pass_finish(later, other, &report, &error));

  CHECK(none == NULL);
  rk_leak_tracker_free(passes); /* a pass may outlive it */
  CHECK_INVALID(rk_committer_submit_repair(c, pass, 0, false, UINT64_MAX, &ticket, &error));
  rk_repair_pass_free(pass);
  rk_repair_pass_free(later);
  rk_repair_pass_free(NULL);
  rk_report_free(report);
  rk_audit_free(audit);
  rk_audit_free(other);
  rk_committer_free(of_others);
}

static void committers(const rk_range *range) {
  rk_committer *c = NULL;
  CHECK_NULL(rk_committer_new(NULL, RK_STRATEGY_CONTIGUOUS, 1, RK_REPLACE_ALWAYS, 1, &c, NULL));
  CHECK_NULL(rk_committer_new(range, RK_STRATEGY_CONTIGUOUS, 1, RK_REPLACE_ALWAYS, 1, NULL, NULL));
  CHECK_INVALID(rk_committer_new(range, RK_REPLACE_ALWAYS, 1, RK_STRATEGY_CONTIGUOUS, 1, &c, NULL)); /* swapped */
  CHECK(c == NULL);
  CHECK_OK(rk_committer_new(range, RK_STRATEGY_CONTIGUOUS, 1000, RK_REPLACE_ALWAYS, 1, &c, NULL));

  rk_operation release = {.deadline = UINT64_MAX, .kind = RK_OPERATION_RELEASE, .data.release = {.value = good}};
  rk_operation allocate = {.deadline = UINT64_MAX, .kind = RK_OPERATION_ALLOCATE, .data.allocate = {1}};
  uint64_t ticket = 77;
  CHECK_NULL(rk_committer_submit(NULL, &allocate, 1, &good, 1, &ticket, NULL));
  CHECK_NULL(rk_committer_submit(c, NULL, 1, &good, 1, &ticket, NULL));
  CHECK_NULL(rk_committer_submit(c, &allocate, 1, NULL, 1, &ticket, NULL));
  CHECK_NULL(rk_committer_submit(c, &allocate, 1, &good, 1, NULL, NULL));
  CHECK_INVALID(rk_committer_submit(c, &allocate, 1, &good, 0, &ticket, NULL));
  CHECK_INVALID(rk_committer_submit(c, &release, 1, &good, 1, &ticket, NULL));
  for (int i = 0; i < MALFORMED; i++) {
    rk_value bad = malformed(i);
    rk_operation wrong = release;
    wrong.data.release.value = bad;
    CHECK_INVALID(rk_committer_submit(c, &wrong, 1, NULL, 0, &ticket, NULL));
    if (bad.kind != RK_VALUE_KIND_ANY) CHECK_INVALID(rk_committer_submit(c, &allocate, 1, &bad, 1, &ticket, NULL));
    CHECK_INVALID(rk_committer_abandon(c, 1, 0, &bad, 1));
    CHECK_INVALID(rk_committer_written(c, &bad, 1));
  }
  for (uint32_t kind = 0; kind < 7; kind++) {
    rk_operation wrong = release;
    wrong.kind = kind;
    if (kind < RK_OPERATION_ALLOCATE || kind > RK_OPERATION_CREATE) CHECK_INVALID(rk_committer_submit(c, &wrong, 1, NULL, 0, &ticket, NULL));
    if (kind > RK_OPERATION_ALLOCATE) CHECK_INVALID(rk_committer_submit(c, &wrong, 1, &good, 1, &ticket, NULL));
  }
  CHECK_OK(rk_committer_submit(c, NULL, 0, NULL, 0, NULL, NULL));
  rk_edit edit = {.kind = RK_EDIT_FORCE, .set = &good, .set_len = 1, .clear = &good, .clear_len = 1};
  CHECK_NULL(rk_committer_submit_edit(NULL, &edit, 1, &ticket, NULL));
  CHECK_NULL(rk_committer_submit_edit(c, NULL, 1, &ticket, NULL));
  CHECK_NULL(rk_committer_submit_edit(c, &edit, 1, NULL, NULL));
  static const uint32_t no_kinds[] = {0, RK_EDIT_CHANGE - 1, RK_EDIT_UNDO + 1, RK_REPLACE_ONCE};
  for (int i = 0; i < 4; i++) {
    rk_edit wrong = edit;
    wrong.kind = no_kinds[i];
    CHECK_INVALID(rk_committer_submit_edit(c, &wrong, 1, &ticket, NULL));
  }
  for (int i = 0; i < MALFORMED; i++) {
    rk_value bad = malformed(i);
    rk_edit wrong = edit;
    wrong.set = &bad;
    if (bad.kind != RK_VALUE_KIND_ANY) CHECK_INVALID(rk_committer_submit_edit(c, &wrong, 1, &ticket, NULL));
    wrong = edit;
    wrong.clear = &bad;
    if (bad.kind != RK_VALUE_KIND_ANY) CHECK_INVALID(rk_committer_submit_edit(c, &wrong, 1, &ticket, NULL));
  }
  rk_edit null = edit;
  null.set = NULL;
  CHECK_NULL(rk_committer_submit_edit(c, &null, 1, &ticket, NULL));
  null = edit;
  null.in_use_len = 1;
  CHECK_NULL(rk_committer_submit_edit(c, &null, 1, &ticket, NULL));
  static const uint8_t ones[16384] = {1};
  null.in_use = ones;
  null.in_use_len = sizeof ones;
  CHECK_RESULT(rk_committer_submit_edit(c, &null, 1, &ticket, NULL), RK_RESULT_BITS_PAST_RANGE);
  CHECK(ticket == 77);
  CHECK_NULL(rk_committer_abandon(NULL, 1, 0, &good, 1));
  CHECK_NULL(rk_committer_abandon(c, 1, 0, NULL, 1));
  CHECK_OK(rk_committer_abandon(c, 1, 0, NULL, 0));
  CHECK_NULL(rk_committer_written(NULL, &good, 1));
  CHECK_NULL(rk_committer_written(c, NULL, 1));
  CHECK_OK(rk_committer_written(c, NULL, 0));
  CHECK_OK(rk_committer_written(c, &good, 1)); /* it was not allocated */

  steps_of_a_pass(c);
  changes_of_an_event();

  rk_step step;
  CHECK_NULL(rk_committer_poll(NULL, 0, &step));
  CHECK_NULL(rk_committer_poll(c, 0, NULL));
  CHECK_NULL(rk_committer_cancel(NULL, 0));
  CHECK_OK(rk_committer_cancel(c, 12345));
  CHECK_NULL(rk_committer_value(NULL, data, sizeof data, &len));
  CHECK_NULL(rk_committer_value(c, NULL, 1, &len));
  CHECK_NULL(rk_committer_value(c, data, sizeof data, NULL));
  CHECK_RESULT(rk_committer_value(c, data, sizeof data, &len), RK_RESULT_NO_SWAP);
  rk_event unknown = {.kind = RK_EVENT_UNKNOWN};
  CHECK_NULL(rk_committer_handle(NULL, &unknown, 0));
  CHECK_NULL(rk_committer_handle(c, NULL, 0));
  for (uint32_t kind = 0; kind < 13; kind++) {
    rk_event event;
    memset(&event, 0, sizeof event);
    event.kind = kind;
    /* Nobody has asked for an answer; empty texts and lists may be NULL. */
    if (kind >= RK_EVENT_HELD && kind <= RK_EVENT_COMPACTED) CHECK_OK(rk_committer_handle(c, &event, 0));
    else CHECK_INVALID(rk_committer_handle(c, &event, 0));
  }
  rk_event unpaired = {.kind = RK_EVENT_CURRENT, .data.current = {{1, 1, 1}, {{1, 1, 1}, NULL, 1}}};
  CHECK_NULL(rk_committer_handle(c, &unpaired, 0));
  rk_event refused = {.kind = RK_EVENT_REFUSED, .data.refused = {NULL, 1}};
  CHECK_NULL(rk_committer_handle(c, &refused, 0));
  refused.data.refused = (rk_refused){TEXT("\xff")};
  CHECK_RESULT(rk_committer_handle(c, &refused, 0), RK_RESULT_INVALID_UTF8);
  rk_event watched = {.kind = RK_EVENT_WATCHED, .data.watched = {NULL, 1}};
  CHECK_NULL(rk_committer_handle(c, &watched, 0));
  rk_known known;
  CHECK_NULL(rk_committer_known(NULL, &known));
  CHECK_NULL(rk_committer_known(c, NULL));

  rk_finished finished[1];
  rk_value values[1];
  CHECK_NULL(rk_committer_finished(NULL, finished, 1, values, 1, data, 1, &len));
  CHECK_NULL(rk_committer_finished(c, NULL, 1, values, 1, data, 1, &len));
  CHECK_NULL(rk_committer_finished(c, finished, 1, NULL, 1, data, 1, &len));
  CHECK_NULL(rk_committer_finished(c, finished, 1, values, 1, NULL, 1, &len));
  CHECK_NULL(rk_committer_finished(c, finished, 1, values, 1, data, 1, NULL));
  CHECK_OK(rk_committer_finished(c, NULL, 0, NULL, 0, NULL, 0, &len));
  CHECK(len == 0);
  rk_value outside = {0, 0x0b000001, RK_VALUE_KIND_IPV4};
  CHECK_OK(rk_committer_submit(c, &allocate, 1, &outside, 1, &ticket, NULL));
  for (int i = 0; i < 2; i++) {
    CHECK_OK(rk_committer_poll(c, 0, &step));
    CHECK(step.kind == RK_STEP_FINISHED);
    CHECK(step.data.finished.outcomes == 1 && step.data.finished.values == 1 && step.data.finished.bytes == 0);
  }
  CHECK_SMALL(rk_committer_finished(c, NULL, 0, values, 1, NULL, 0, &len));
  CHECK_SMALL(rk_committer_finished(c, finished, 1, NULL, 0, NULL, 0, &len));
  CHECK_OK(rk_committer_finished(c, finished, 1, values, 1, NULL, 0, &len));
  CHECK(len == 1 && finished[0].ticket == ticket && finished[0].outcome == RK_OUTCOME_FAILED);
  CHECK(finished[0].data.failed.result == RK_RESULT_NOT_IN_RANGE);
  CHECK(finished[0].data.failed.values == 1 && values[0].low == outside.low);

  rk_committer_free(c);
  rk_committer_free(NULL);
}

static void bootstraps(void) {
  rk_bootstrap *b = NULL;
  rk_error error;
  const char *config = "{\"advertiseAddress\":\"192.0.2.10\"}";
  char step[4096];
  size_t size = strlen(config);
  CHECK_NULL(rk_bootstrap_new(NULL, 1, &b, &error));
  CHECK_NULL(rk_bootstrap_new(config, size, NULL, &error));
  CHECK_RESULT(rk_bootstrap_new(TEXT("\xff"), &b, &error), RK_RESULT_INVALID_UTF8);
  CHECK_RESULT(rk_bootstrap_new(TEXT("{\n\"nonsense\":1}"), &b, &error), RK_RESULT_INVALID_JSON);
  CHECK(error.detail_kind == RK_DETAIL_BYTE && error.detail.byte == 11 && strstr(error.message, "nonsense") != NULL);
  CHECK_RESULT(rk_bootstrap_new(NULL, 0, &b, NULL), RK_RESULT_INVALID_JSON);
  CHECK_RESULT(rk_bootstrap_new(TEXT("{}"), &b, &error), RK_RESULT_INVALID_CONFIG);
  CHECK(b == NULL);
  CHECK_OK(rk_bootstrap_new(config, size, &b, &error));

  CHECK_NULL(rk_bootstrap_poll(NULL, 0, step, sizeof step, &len));
  CHECK_NULL(rk_bootstrap_poll(b, 0, NULL, 1, &len));
  CHECK_NULL(rk_bootstrap_poll(b, 0, step, sizeof step, NULL));
  CHECK_SMALL(rk_bootstrap_poll(b, 0, step, 1, &len));
  size = len;
  CHECK_OK(rk_bootstrap_poll(b, 0, step, sizeof step, &len));
  /* The step that did not fit. */
  CHECK(len == size && strstr(step, "\"ready\"") != NULL);

  CHECK_NULL(rk_bootstrap_answered(NULL, 0, 0, TEXT("\"done\""), &error));
  CHECK_NULL(rk_bootstrap_answered(b, 0, 0, NULL, 1, &error));
  CHECK_RESULT(rk_bootstrap_answered(b, 0, 0, TEXT("\"nonsense\""), &error), RK_RESULT_INVALID_JSON);
  CHECK_RESULT(rk_bootstrap_answered(b, 0, 0, TEXT("\xff"), &error), RK_RESULT_INVALID_UTF8);
  CHECK_OK(rk_bootstrap_answered(b, 0, 12345, TEXT("\"done\""), &error)); /* nobody has asked */
  static const char event[] = "{\"leaseDeleted\":{\"key\":\"/registry/masterleases/192.0.2.11\"}}";
  CHECK_NULL(rk_bootstrap_watched(NULL, 0, TEXT(event), &error));
  CHECK_NULL(rk_bootstrap_watched(b, 0, NULL, 1, &error));
  CHECK_RESULT(rk_bootstrap_watched(b, 0, TEXT("\"done\""), &error), RK_RESULT_INVALID_JSON);
  CHECK_OK(rk_bootstrap_watched(b, 0, TEXT(event), &error));
  CHECK_NULL(rk_bootstrap_stop(NULL, 0));
  CHECK_OK(rk_bootstrap_stop(b, 0));
  rk_bootstrap_free(b);
  rk_bootstrap_free(NULL);
}

static void plans(void) {
  static const char question[] = "{\"namespaces\":{\"existing\":[\"default\"],\"wanted\":[\"default\"]}}";
  static const char wanted[] = "{\"namespaces\":{\"create\":[]}}";
  char answer[64] = "x";
  rk_error error;
  len = 7;
  CHECK_NULL(rk_bootstrap_plan(NULL, 1, answer, sizeof answer, &len, &error));
  CHECK_NULL(rk_bootstrap_plan(TEXT(question), NULL, 1, &len, &error));
  CHECK_NULL(rk_bootstrap_plan(TEXT(question), answer, sizeof answer, NULL, &error));
  CHECK_INVALID(rk_bootstrap_plan(question, SIZE_MAX, answer, sizeof answer, &len, &error));
  CHECK_INVALID(rk_bootstrap_plan(TEXT(question), answer, sizeof answer, odd(&len), &error));
  CHECK_RESULT(rk_bootstrap_plan(TEXT("\xff"), answer, sizeof answer, &len, &error), RK_RESULT_INVALID_UTF8);
  CHECK_RESULT(rk_bootstrap_plan(NULL, 0, answer, sizeof answer, &len, NULL), RK_RESULT_INVALID_JSON);
  CHECK_RESULT(rk_bootstrap_plan(TEXT("{\"pods\":{}}"), answer, sizeof answer, &len, &error), RK_RESULT_INVALID_JSON);
  CHECK(error.detail_kind == RK_DETAIL_BYTE && error.detail.byte >= 1 && error.detail.byte <= 7 && strstr(error.message, "pods") != NULL);
  CHECK_RESULT(rk_bootstrap_plan(TEXT("{\"namespaces\":{\"existing\":[],\"wanted\":[\"A\"]}}"), answer, sizeof answer, &len, &error), RK_RESULT_INVALID_CONFIG);
  CHECK(error.detail_kind == RK_DETAIL_NONE && strstr(error.message, "wanted") != NULL);
  CHECK(len == 7 && answer[0] == 'x');

  CHECK_SMALL(rk_bootstrap_plan(TEXT(question), NULL, 0, &len, &error));
  CHECK(len == sizeof wanted - 1);
  CHECK_SMALL(rk_bootstrap_plan(TEXT(question), answer, len - 1, &len, NULL));
  CHECK(answer[0] == 'x');
  CHECK_OK(rk_bootstrap_plan(TEXT(question), answer, len, &len, NULL));
  CHECK(len == sizeof wanted - 1 && memcmp(answer, wanted, len) == 0);
}

static rk_error error;

/* Whether the call fails with this result, and this sentence in error. */
#define CHECK_SAYS(call, expected, sentence)                                               \
  do {                                                                                     \
    CHECK_RESULT(call, expected);                                                          \
    if (strcmp(error.message, sentence) != 0) {                                            \
      fprintf(stderr, "%s:%d: %s says %s\n", __FILE__, __LINE__, #call, error.message);    \
      exit(1);                                                                             \
    }                                                                                      \
  } while (0)
#define CHECK_INVALID_SAYS(call, sentence) CHECK_SAYS(call, RK_RESULT_INVALID_ARGUMENT, sentence)

/* Each failure names its argument, as the header spells it, and the value. */
static void sentences(const rk_range *range) {
  rk_range none = {.extent = 7};
  CHECK_INVALID_SAYS(rk_range_parse(TEXT("1-9"), 3, &none, &error), "kind 3 is unknown: it is CIDR, ports or numbers");
  CHECK_INVALID(rk_range_parse(TEXT("10.0.0.0/24"), RK_VALUE_KIND_PORT, &none, &error));
  CHECK_SAYS(rk_range_parse(TEXT(""), RK_RANGE_KIND_CIDR, &none, &error), RK_RESULT_INVALID_RANGE,
             "CIDR \"\" has no prefix length: expected ADDRESS/LENGTH");
  CHECK_SAYS(rk_range_parse(TEXT("10.0.0.1"), RK_RANGE_KIND_PORTS, &none, &error), RK_RESULT_INVALID_RANGE,
             "port range \"10.0.0.1\": \"10.0.0.1\" is not a number");
  rk_allocator *allocator = NULL;
  CHECK_INVALID_SAYS(rk_allocator_new(range, 9, 1, &allocator, &error),
                     "strategy 9 is unknown: it is contiguous, random scan or dynamic band first");
  CHECK_SAYS(rk_allocator_new(range, RK_STRATEGY_CONTIGUOUS, 1, NULL, &error), RK_RESULT_NULL_POINTER, "allocator is NULL");
  CHECK_INVALID_SAYS(rk_allocator_new(odd(&number), 0, 1, &allocator, &error), "range is not aligned");
  CHECK_OK(rk_allocator_new(range, RK_STRATEGY_CONTIGUOUS, 1, &allocator, &error));
  rk_value bad = malformed(1);
  CHECK_INVALID_SAYS(rk_allocator_allocate_batch(allocator, &bad, 1, &value, &error),
                     "request 0 is malformed: kind 1, high 0, low 65536");
  CHECK_INVALID_SAYS(rk_allocator_allocate_batch(allocator, &bad, SIZE_MAX, &value, &error),
                     "values is longer than the address space");
  CHECK_SAYS(rk_allocator_restore(allocator, TEXT("10\xff"), NULL, 0, &error), RK_RESULT_INVALID_UTF8,
             "range is not UTF-8 at byte 2");
  CHECK(error.detail_kind == RK_DETAIL_BYTE && error.detail.byte == 2);
  rk_allocator_free(allocator);

  rk_leak_counters *counters = NULL;
  rk_leak_tracker *tracker = NULL;
  const char *passes = "passes 0 is less than 1: a leak is cleaned in the first pass that sees it, or later";
  CHECK_INVALID_SAYS(rk_leak_counters_new(range, 0, &counters, &error), passes);
  CHECK_INVALID_SAYS(rk_leak_tracker_new(0, 1, false, &tracker, &error), passes);

  rk_committer *committer = NULL;
  CHECK_INVALID_SAYS(rk_committer_new(range, RK_STRATEGY_CONTIGUOUS, 1, 3, 1, &committer, &error),
                     "replace 3 is unknown: it is if unused, once or always");
  CHECK_INVALID_SAYS(rk_committer_new(range, 3, 1, RK_REPLACE_ALWAYS, 1, &committer, &error),
                     "strategy 3 is unknown: it is contiguous, random scan or dynamic band first");
  CHECK_OK(rk_committer_new(range, RK_STRATEGY_CONTIGUOUS, 1, RK_REPLACE_ALWAYS, 1, &committer, &error));
  rk_operation operations[2] = {
      {.deadline = 1, .kind = RK_OPERATION_ALLOCATE, .data.allocate = {1}},
      {.deadline = 1, .kind = RK_OPERATION_RELEASE, .data.release = {.value = bad}},
  };
  const rk_value two[2] = {good, good};
  uint64_t tickets[2];
  CHECK_INVALID_SAYS(rk_committer_submit(committer, operations, 2, two, 1, tickets, &error),
                     "the value of operation 1 is malformed: kind 1, high 0, low 65536");
  CHECK_INVALID_SAYS(rk_committer_submit(committer, operations, 1, two, 2, tickets, &error),
                     "values_len 2 is too large: no operation requests the last 1");
  CHECK_INVALID_SAYS(rk_committer_submit(committer, operations, 1, NULL, 0, tickets, &error),
                     "values_len 0 is too small: operation 0 has 1 requests more");
  operations[0].kind = 9;
  CHECK_INVALID_SAYS(rk_committer_submit(committer, operations, 1, NULL, 0, tickets, &error),
                     "operation 0 is of an unknown kind: 9");
  rk_committer_free(committer);
}

/* A batch that cannot be read is one result, and the place. */
static void sentences_about_batches(void) {
  rk_audit *audit = NULL;
  rk_report *report = NULL;
  CHECK_OK(rk_audit_new(NULL, true, NULL, &audit));
  memory m[2];
  rk_services services = {batch_in(&m[0])};
  rk_service_names names = {batch_in(&m[1])};
  add_service(&services, "10.0.0.1", 0, 0);
  CHECK_INVALID_SAYS(rk_audit_observe_services(audit, NULL, &services, &error),
                     "names are missing: where ClusterIPs are IPAddress objects, Services need them");
  CHECK_SAYS(rk_audit_observe_services(audit, &names, &services, &error), RK_RESULT_INVALID_BATCH,
             "the batch has another number of names (0) than of Services (1)");
  add_service(&services, "10.0.0.\xff", 0, 0);
  add_service(&services, "10.0.0.3", 0, 0);
  CHECK_SAYS(rk_audit_observe_services(audit, NULL, &services, &error), RK_RESULT_INVALID_BATCH,
             "Service 1 of the batch has text that is not UTF-8");
  services.batch.text[15] = 'x';
  services.batch.text_len--;
  CHECK_SAYS(rk_audit_observe_services(audit, NULL, &services, &error), RK_RESULT_INVALID_BATCH,
             "Service 2 of the batch has a text that ends behind the text of the batch, or inside a character");
  services.batch.text_len += 2;
  services.batch.text[24] = '\xff';
  CHECK_SAYS(rk_audit_observe_services(audit, NULL, &services, &error), RK_RESULT_INVALID_BATCH,
             "the batch has words or text behind those of its last object");
  CHECK_OK(rk_service_names_add(&names, rk_text_of("default"), rk_text_of("\xff"), 0, 0));
  rk_services one = {batch_in(&m[0])};
  add_service(&one, "10.0.0.1", 0, 0);
  CHECK_SAYS(rk_audit_observe_services(audit, &names, &one, &error), RK_RESULT_INVALID_BATCH,
             "the name of Service 0 of the batch has text that is not UTF-8");
  rk_ip_addresses objects = {batch_in(&m[1])};
  const rk_ip_address object = {.name = rk_text_of("10.0.0.1"), .parent_name = rk_text_of("\xff")};
  CHECK_OK(rk_ip_addresses_add(&objects, &object));
  CHECK_SAYS(rk_audit_observe_ip_addresses(audit, &objects, &error), RK_RESULT_INVALID_BATCH,
             "IPAddress object 0 of the batch has text that is not UTF-8");
  CHECK_NULL(rk_audit_compare_bitmap(NULL, 0, 1, 0, &error));
  CHECK_INVALID_SAYS(rk_audit_compare_bitmap(audit, 0, 1, 0, &error),
                     "the audit has no bitmap of ClusterIPs at place 0 of its ranges");
  CHECK_NULL(rk_audit_observe_unreadable(NULL, RK_SUBJECT_KIND_SERVICE, NULL, 0, &error));
  CHECK_INVALID_SAYS(rk_audit_observe_unreadable(audit, 3, NULL, 0, &error), "kind 3 is not one of RK_SUBJECT_KIND_*");
  CHECK_NULL(rk_audit_observe_unreadable(audit, RK_SUBJECT_KIND_IP_ADDRESS, NULL, 1, &error));
  CHECK_OK(rk_audit_observe_unreadable(audit, RK_SUBJECT_KIND_IP_ADDRESS, "\xff", 1, &error));
  CHECK_INVALID_SAYS(rk_audit_check_cluster(audit, 0, 7, 0, 0, true, &error),
                     "secondary_service_ips 7 is none of RK_PRESENCE_*");
  rk_ranges_verdict verdict;
  CHECK_NULL(rk_ranges_judge("10.0.0.0/24", 11, NULL, 0, NULL, 0, NULL, 0, NULL, &error));
  CHECK_NULL(rk_ranges_judge(NULL, 1, NULL, 0, NULL, 0, NULL, 0, &verdict, &error));
  CHECK_RESULT(rk_ranges_judge(NULL, 0, "10.0.0.0/x", 10, NULL, 0, NULL, 0, &verdict, &error), RK_RESULT_INVALID_RANGE);
  rk_value none = {0};
  none.kind = RK_VALUE_KIND_NONE;
  CHECK_RESULT(rk_ranges_judge(NULL, 0, NULL, 0, NULL, 0, &none, 1, &verdict, &error), RK_RESULT_NOT_IN_RANGE);
  CHECK_OK(rk_ranges_judge("10.0.0.0/24", 11, "10.0.1.0/24", 11, NULL, 0, NULL, 0, &verdict, &error));
  CHECK(verdict.outcome == RK_RANGES_OUTCOME_HARMLESS && verdict.values == 0);
  CHECK_OK(rk_audit_finish(audit, &report, &error));
  rk_audit_free(audit);
  rk_claimant claimants[1];
  rk_service_form forms[9] = {0};
  CHECK_NULL(rk_report_observe_forms(NULL, forms, 9, &error));
  CHECK_NULL(rk_report_observe_forms(report, NULL, 9, &error));
  CHECK_INVALID(rk_report_observe_forms(report, forms, 9, &error));
  CHECK_NULL(rk_report_observe_claimants(NULL, &names, &one, &error));
  CHECK_NULL(rk_report_observe_claimants(report, NULL, &one, &error));
  CHECK_NULL(rk_report_observe_claimants(report, &names, NULL, &error));
  rk_service_names named = {batch_in(&m[1])};
  CHECK_SAYS(rk_report_observe_claimants(report, &named, &one, &error), RK_RESULT_INVALID_BATCH,
             "the batch has another number of names (0) than of Services (1)");
  CHECK_OK(rk_service_names_add(&named, rk_text_of("default"), rk_text_of("a"), 1, 0));
  CHECK_INVALID_SAYS(rk_report_observe_claimants(report, &named, &one, &error),
                     "the audit has observed 0 Services, and all of them were observed a second time");
  rk_object_repair object_repairs[1];
  CHECK_NULL(rk_report_object_repairs(NULL, 0, object_repairs, 1, &len));
  CHECK_NULL(rk_report_object_repairs(report, 0, NULL, 1, &len));
  CHECK_NULL(rk_report_object_repairs(report, 0, object_repairs, 1, NULL));
  CHECK_NULL(rk_report_claimants(NULL, 0, claimants, 1, &len));
  CHECK_NULL(rk_report_claimants(report, 0, NULL, 1, &len));
  CHECK_NULL(rk_report_claimants(report, 0, claimants, 1, NULL));
  CHECK_INVALID(rk_report_claimants(report, 0, claimants, 1, &len));
  rk_report_free(report);
}

static void ledgers(void) {
  static const char pool[] = "{\"range\":\"1-9\",\"choice\":\"Lowest\"}";
  const size_t pool_len = sizeof pool - 1;
  const rk_ledger_change change = {.kind = RK_LEDGER_CHANGE_ALLOCATE};
  rk_ledger *ledger = NULL;
  rk_shared_ledger *shared = NULL;
  rk_ledger_allocation made[1];
  rk_ledger_value one = {.low = 1, .kind = RK_LEDGER_VALUE_KIND_INTEGER};
  rk_ledger_usage usage;
  rk_ledger_request request;
  uint64_t ticket = 77, next = 0;
  size_t n = 0;
  bool in_use = false;

  CHECK_NULL(rk_ledger_new(NULL, pool_len, NULL, 0, 1, &ledger, NULL));
  CHECK_NULL(rk_ledger_new(pool, pool_len, NULL, 1, 1, &ledger, NULL));
  CHECK_NULL(rk_ledger_new(pool, pool_len, NULL, 0, 1, NULL, NULL));
  CHECK_RESULT(rk_ledger_new("\xff", 1, NULL, 0, 1, &ledger, NULL), RK_RESULT_INVALID_UTF8);
  CHECK_RESULT(rk_ledger_new(NULL, 0, NULL, 0, 1, &ledger, NULL), RK_RESULT_INVALID_JSON);
  CHECK(!ledger);
  CHECK_OK(rk_ledger_new(pool, pool_len, NULL, 0, 1, &ledger, NULL));
  rk_ledger_free(NULL);

  const rk_ledger_value wrong[] = {
      {0, 1, 0, 0},
      {1, 1, 0, RK_LEDGER_VALUE_KIND_INTEGER},
      {0, 1, 1, RK_LEDGER_VALUE_KIND_INTEGER},
      {1, 1, 1, RK_LEDGER_VALUE_KIND_BLOCK},
      {0, 1ull << 32, 0, RK_LEDGER_VALUE_KIND_IPV4},
      {0, 1, 24, RK_LEDGER_VALUE_KIND_IPV4},
      {0, 1, 1, RK_LEDGER_VALUE_KIND_IPV6},
      {0, 1, 24, RK_LEDGER_VALUE_KIND_IPV4_NETWORK},
      {0, 0, 33, RK_LEDGER_VALUE_KIND_IPV4_NETWORK},
      {0, 0, 129, RK_LEDGER_VALUE_KIND_IPV6_NETWORK},
      {0, 0, 1ull << 40, RK_LEDGER_VALUE_KIND_IPV6_NETWORK},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    const rk_ledger_change named = {.kind = RK_LEDGER_CHANGE_ALLOCATE_VALUE, .value = wrong[i]};
    CHECK_INVALID(rk_ledger_apply(ledger, &named, NULL, 0, 0, made, 1, &n, NULL));
    CHECK_INVALID(rk_ledger_value_text(&wrong[i], text, sizeof text, &len));
    CHECK_INVALID(rk_ledger_owner_of(ledger, &wrong[i], &in_use, text, sizeof text, &len, NULL));
  }
  const rk_ledger_change unknown = {.kind = 1}, too_large = {.kind = RK_LEDGER_CHANGE_ALLOCATE_BLOCK, .n = UINT32_MAX};
  CHECK_INVALID(rk_ledger_apply(ledger, &unknown, NULL, 0, 0, made, 1, &n, NULL));
  CHECK_INVALID(rk_ledger_apply(ledger, &too_large, NULL, 0, 0, made, 1, &n, NULL));
  CHECK_NULL(rk_ledger_apply(NULL, &change, NULL, 0, 0, made, 1, &n, NULL));
  CHECK_NULL(rk_ledger_apply(ledger, NULL, NULL, 0, 0, made, 1, &n, NULL));
  CHECK_NULL(rk_ledger_apply(ledger, &change, NULL, 1, 0, made, 1, &n, NULL));
  CHECK_NULL(rk_ledger_apply(ledger, &change, NULL, 0, 0, NULL, 1, &n, NULL));
  CHECK_NULL(rk_ledger_apply(ledger, &change, NULL, 0, 0, made, 1, NULL, NULL));
  CHECK_INVALID(rk_ledger_apply(ledger, odd((void *)&change), NULL, 0, 0, made, 1, &n, NULL));
  CHECK_SMALL(rk_ledger_apply(ledger, &change, NULL, 0, 0, NULL, 0, &n, NULL));
  CHECK_OK(rk_ledger_count(ledger, &usage));
  CHECK(usage.used == 0);
  CHECK_NULL(rk_ledger_count(NULL, &usage));
  CHECK_NULL(rk_ledger_count(ledger, NULL));

  CHECK_NULL(rk_ledger_value_text(NULL, text, sizeof text, &len));
  CHECK_NULL(rk_ledger_value_text(&one, text, sizeof text, NULL));
  CHECK_SMALL(rk_ledger_value_text(&one, NULL, 0, &len));
  CHECK_NULL(rk_ledger_parse_value(NULL, TEXT("1"), &one, NULL));
  CHECK_NULL(rk_ledger_parse_value(ledger, NULL, 1, &one, NULL));
  CHECK_NULL(rk_ledger_parse_value(ledger, TEXT("1"), NULL, NULL));
  CHECK_NULL(rk_ledger_owner_of(NULL, &one, &in_use, text, sizeof text, &len, NULL));
  CHECK_NULL(rk_ledger_owner_of(ledger, NULL, &in_use, text, sizeof text, &len, NULL));
  CHECK_NULL(rk_ledger_owner_of(ledger, &one, NULL, text, sizeof text, &len, NULL));
  CHECK_NULL(rk_ledger_owner_of(ledger, &one, &in_use, text, sizeof text, NULL, NULL));
  CHECK_NULL(rk_ledger_owned_by(NULL, TEXT("a"), made, 1, &n));
  CHECK_NULL(rk_ledger_owned_by(ledger, NULL, 1, made, 1, &n));
  CHECK_NULL(rk_ledger_owned_by(ledger, TEXT("a"), made, 1, NULL));
  CHECK_NULL(rk_ledger_values(NULL, 0, &one, 1, &n, &next));
  CHECK_NULL(rk_ledger_values(ledger, 0, NULL, 1, &n, &next));
  CHECK_NULL(rk_ledger_values(ledger, 0, &one, 1, NULL, &next));
  CHECK_NULL(rk_ledger_values(ledger, 0, &one, 1, &n, NULL));
  CHECK_NULL(rk_ledger_encode(NULL, data, sizeof data, &len));
  CHECK_NULL(rk_ledger_encode(ledger, data, sizeof data, NULL));
  CHECK_SMALL(rk_ledger_encode(ledger, NULL, 0, &len));
  CHECK_NULL(rk_ledger_audit(NULL, TEXT("{}"), text, sizeof text, &len, NULL));
  CHECK_NULL(rk_ledger_audit(ledger, NULL, 1, text, sizeof text, &len, NULL));
  CHECK_NULL(rk_ledger_audit(ledger, TEXT("{\"owners\":[],\"passes\":1}"), text, sizeof text, NULL, NULL));
  CHECK_SMALL(rk_ledger_audit(ledger, TEXT("{\"owners\":[],\"passes\":1}"), NULL, 0, &len, NULL));
  CHECK_RESULT(rk_ledger_audit(ledger, TEXT("{\"owners\":[],\"passes\":0}"), text, sizeof text, &len, NULL), RK_RESULT_INVALID_JSON);
  rk_ledger_free(ledger);
  ledger = NULL;

  CHECK_NULL(rk_shared_ledger_new(NULL, pool_len, 1, &shared, NULL));
  CHECK_NULL(rk_shared_ledger_new(pool, pool_len, 1, NULL, NULL));
  CHECK_OK(rk_shared_ledger_new(pool, pool_len, 1, &shared, NULL));
  rk_shared_ledger_free(NULL);
  CHECK_NULL(rk_shared_ledger_submit(NULL, &change, NULL, 0, &ticket, NULL));
  CHECK_NULL(rk_shared_ledger_submit(shared, NULL, NULL, 0, &ticket, NULL));
  CHECK_NULL(rk_shared_ledger_submit(shared, &change, NULL, 1, &ticket, NULL));
  CHECK_NULL(rk_shared_ledger_submit(shared, &change, NULL, 0, NULL, NULL));
  CHECK_INVALID(rk_shared_ledger_submit(shared, &unknown, NULL, 0, &ticket, NULL));
  CHECK(ticket == 77);
  CHECK_NULL(rk_shared_ledger_cancel(NULL, 1));
  CHECK_OK(rk_shared_ledger_cancel(shared, 1));
  CHECK_NULL(rk_shared_ledger_poll(NULL, 0, &request));
  CHECK_NULL(rk_shared_ledger_poll(shared, 0, NULL));
  CHECK_OK(rk_shared_ledger_poll(shared, 0, &request));
  CHECK(request.kind == RK_LEDGER_REQUEST_NONE && request.until == 0 && request.value_len == 0 && request.token_len == 0);
  CHECK_NULL(rk_shared_ledger_put(NULL, data, sizeof data, data, sizeof data));
  CHECK_NULL(rk_shared_ledger_put(shared, NULL, 1, data, sizeof data));
  CHECK_NULL(rk_shared_ledger_put(shared, data, sizeof data, NULL, 1));
  CHECK_OK(rk_shared_ledger_put(shared, NULL, 0, NULL, 0));
  CHECK_NULL(rk_shared_ledger_answered(NULL, RK_LEDGER_ANSWER_NONE, 0, NULL, 0, NULL, 0, NULL));
  CHECK_NULL(rk_shared_ledger_answered(shared, RK_LEDGER_ANSWER_GOT, 0, NULL, 1, NULL, 0, NULL));
  CHECK_NULL(rk_shared_ledger_answered(shared, RK_LEDGER_ANSWER_GOT, 0, NULL, 0, NULL, 1, NULL));
  CHECK_INVALID(rk_shared_ledger_answered(shared, 1, 0, NULL, 0, NULL, 0, NULL));
  /* Answers that nothing was asked for. */
  CHECK_INVALID(rk_shared_ledger_answered(shared, RK_LEDGER_ANSWER_PUT, 0, NULL, 0, NULL, 0, NULL));
  CHECK_INVALID(rk_shared_ledger_answered(shared, RK_LEDGER_ANSWER_CHANGED, 0, NULL, 0, NULL, 0, NULL));
  CHECK_INVALID(rk_shared_ledger_answered(shared, RK_LEDGER_ANSWER_TOO_LARGE, 0, NULL, 0, NULL, 0, NULL));
  CHECK_INVALID(rk_shared_ledger_answered(shared, RK_LEDGER_ANSWER_GOT, 0, NULL, 0, NULL, 0, NULL));
  const rk_ledger_change nobody = {.kind = RK_LEDGER_CHANGE_RELEASE_OWNER};
  CHECK_INVALID(rk_shared_ledger_submit(shared, &nobody, NULL, 0, &ticket, NULL));
  CHECK_OK(rk_shared_ledger_answered(shared, RK_LEDGER_ANSWER_NONE, 0, NULL, 0, NULL, 0, NULL));
  CHECK_NULL(rk_shared_ledger_outcome(NULL, 1, made, 1, &n, NULL));
  CHECK_NULL(rk_shared_ledger_outcome(shared, 1, NULL, 1, &n, NULL));
  CHECK_NULL(rk_shared_ledger_outcome(shared, 1, made, 1, NULL, NULL));
  CHECK_RESULT(rk_shared_ledger_outcome(shared, 1, made, 1, &n, NULL), RK_RESULT_NOT_ENDED);
  CHECK_NULL(rk_shared_ledger_known(NULL, &ledger));
  CHECK_NULL(rk_shared_ledger_known(shared, NULL));
  CHECK_RESULT(rk_shared_ledger_known(shared, &ledger), RK_RESULT_NOT_INITIALISED);
  rk_shared_ledger_free(shared);
}

static void indexes(void) {
  rk_service_cidr cidr = {.prefix = 7};
  rk_index *x = NULL;
  rk_reservation r = {0};
  rk_index_changes changes;
  rk_value good = ipv4(0x0a000001);
  uint64_t a = 0, b = 0;
  size_t n = 0;
  bool flag = false;
  CHECK_OK(rk_service_cidr_parse(TEXT("10.0.0.0/24"), &cidr, NULL));
  CHECK_NULL(rk_index_new(1, NULL));
  rk_index_free(NULL);
  CHECK_OK(rk_index_new(1, &x));
  CHECK_NULL(rk_index_insert_cidr(NULL, &cidr, &flag));
  CHECK_NULL(rk_index_insert_cidr(x, NULL, &flag));
  CHECK_NULL(rk_index_insert_cidr(x, &cidr, NULL));
  CHECK_NULL(rk_index_remove_cidr(NULL, &cidr, &flag));
  CHECK_NULL(rk_index_remove_cidr(x, NULL, &flag));
  CHECK_NULL(rk_index_remove_cidr(x, &cidr, NULL));
  CHECK_INVALID(rk_index_usage(x, &cidr, &a, &b));
  CHECK_NULL(rk_index_usage(NULL, &cidr, &a, &b));
  CHECK_NULL(rk_index_usage(x, NULL, &a, &b));
  CHECK_NULL(rk_index_usage(x, &cidr, NULL, &b));
  CHECK_NULL(rk_index_usage(x, &cidr, &a, NULL));
  CHECK_NULL(rk_index_is_taken(NULL, &good, &flag));
  CHECK_NULL(rk_index_is_taken(x, NULL, &flag));
  CHECK_NULL(rk_index_is_taken(x, &good, NULL));
  const rk_service_cidr forged[2] = {cidr, {ipv4(0x0a000000), 33}};
  CHECK_NULL(rk_index_reserve(NULL, forged, 0, 0, &r));
  CHECK_NULL(rk_index_reserve(x, NULL, 1, 0, &r));
  CHECK_INVALID(rk_index_reserve(x, forged, 2, 0, &r));
  CHECK_NULL(rk_index_reserve(x, NULL, 0, 0, NULL));
  CHECK_RESULT(rk_index_reserve(x, NULL, 0, 0, &r), RK_RESULT_FULL);
  CHECK_NULL(rk_index_reserve_address(NULL, &good, 0, &r));
  CHECK_NULL(rk_index_reserve_address(x, NULL, 0, &r));
  CHECK_NULL(rk_index_reserve_address(x, &good, 0, NULL));
  CHECK_NULL(rk_index_confirm(NULL, &r, 1));
  CHECK_NULL(rk_index_confirm(x, NULL, 1));
  CHECK_INVALID(rk_index_confirm(x, &r, 1));
  CHECK_NULL(rk_index_created(NULL, &r.address, 1));
  CHECK_NULL(rk_index_created(x, NULL, 1));
  CHECK_INVALID(rk_index_created(x, &r.address, 1));
  CHECK_NULL(rk_index_abort(NULL, &r));
  CHECK_NULL(rk_index_abort(x, NULL));
  CHECK_INVALID(rk_index_abort(x, &r));
  CHECK_NULL(rk_index_already_exists(NULL, &r));
  CHECK_NULL(rk_index_already_exists(x, NULL));
  CHECK_INVALID(rk_index_already_exists(x, &r));
  CHECK_NULL(rk_index_expire(NULL, 0, &n));
  CHECK_NULL(rk_index_expire(x, 0, NULL));
  CHECK_NULL(rk_index_added(NULL, &good, 1));
  CHECK_NULL(rk_index_added(x, NULL, 1));
  CHECK_NULL(rk_index_removed(NULL, &good, 1));
  CHECK_NULL(rk_index_removed(x, NULL, 1));
  CHECK_NULL(rk_index_replace(NULL, &good, 1, 1, &changes));
  CHECK_NULL(rk_index_replace(x, NULL, 1, 1, &changes));
  CHECK_NULL(rk_index_replace(x, &good, 1, 1, NULL));
  for (int i = 0; i < MALFORMED; i++) {
    CHECK_INVALID(rk_index_is_taken(x, AT(malformed(i)), &flag));
    CHECK_INVALID(rk_index_reserve_address(x, AT(malformed(i)), 0, &r));
    CHECK_INVALID(rk_index_added(x, AT(malformed(i)), 1));
    CHECK_INVALID(rk_index_removed(x, AT(malformed(i)), 1));
    CHECK_INVALID(rk_index_replace(x, AT(malformed(i)), 1, 1, &changes));
  }
  rk_index_free(x);
}

int main(void) {
  rk_range range = range_of("10.0.0.0/24");
  sentences(&range);
  sentences_about_batches();
  names_and_values();
  ranges(&range);
  service_cidrs();
  ledgers();
  indexes();
  allocators(&range);
  leak_counters(&range);
  range_allocations();
  audit(&range);
  audit_of_ip_addresses();
  judges();
  changes(&range);
  committers(&range);
  bootstraps();
  plans();
  return 0;
}

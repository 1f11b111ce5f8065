/* Ranges and allocators, used as they are meant to be. */
#include "check.h"

static void ranges(void) {
  rk_range range = range_of("10.0.0.77/24");
  rk_range_description description;
  CHECK_OK(rk_range_describe(&range, &description));
  CHECK(description.size == 254 && description.static_band == 16);
  CHECK(description.text_len == 11 && strcmp(description.text, "10.0.0.0/24") == 0);
  uint32_t number = 0;
  CHECK_OK(rk_range_offset_of(&range, AT(ipv4(0x0a000001)), &number));
  CHECK(number == 0);
  CHECK_RESULT(rk_range_offset_of(&range, AT(ipv4(0x0a000000)), &number), RK_RESULT_NOT_IN_RANGE);
  CHECK_RESULT(rk_range_offset_of(&range, AT(rk_value_port(80)), &number), RK_RESULT_NOT_IN_RANGE);
  rk_value value;
  CHECK_OK(rk_range_value_at(&range, 253, &value));
  CHECK(same(value, ipv4(0x0a0000fe)));
  CHECK_RESULT(rk_range_value_at(&range, 254, &value), RK_RESULT_NOT_IN_RANGE);

  const struct {
    const char *one, *other;
    bool excludes;
  } pairs[] = {
      {"10.0.0.0/24", "10.1.0.0/16", true},  {"fd00::/108", "fd01::/64", true},   {"30000-32767", "80", true},
      {"10.0.0.0/24", "fd00::/108", false}, {"10.0.0.0/24", "30000-32767", false},
  };
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    rk_range one = range_of(pairs[i].one), other = range_of(pairs[i].other);
    bool excludes = !pairs[i].excludes;
    CHECK_OK(rk_range_excludes(&one, &other, &excludes));
    CHECK(excludes == pairs[i].excludes);
    CHECK_OK(rk_range_excludes(&other, &one, &excludes));
    CHECK(excludes == pairs[i].excludes);
  }

  range = range_of("30000+2767");
  CHECK_OK(rk_range_describe(&range, &description));
  CHECK(description.size == 2768 && description.static_band == 86);
  CHECK(description.text_len == 11 && strcmp(description.text, "30000-32767") == 0);
  /* No range has a longer text. */
  range = range_of("1111:2222:3333:4444:5555:6666:7777:8888/128");
  CHECK_OK(rk_range_describe(&range, &description));
  CHECK(description.size == 0 && strcmp(description.text, "1111:2222:3333:4444:5555:6666:7777:8888/128") == 0);

  char text[64];
  size_t len = 0;
  CHECK_OK(rk_address_parse(TEXT("010.000.0.1"), &value));
  CHECK(same(value, ipv4(0x0a000001)));
  CHECK_OK(rk_address_parse(TEXT("::ffff:10.0.0.1"), &value));
  CHECK(same(value, ipv4(0x0a000001)));
  CHECK_OK(rk_address_parse(TEXT("fd00::1"), &value));
  CHECK(value.kind == RK_VALUE_KIND_IPV6 && value.high == 0xfd00000000000000 && value.low == 1);
  CHECK_OK(rk_value_text(&value, text, sizeof text, &len));
  CHECK(len == 7 && memcmp(text, "fd00::1", len) == 0);

  rk_error error;
  rk_range none = {.extent = 7};
  CHECK_RESULT(rk_range_parse(TEXT("10.0.0.0/33"), RK_RANGE_KIND_CIDR, &none, &error), RK_RESULT_INVALID_RANGE);
  CHECK(none.extent == 7 && error.message_len == strlen(error.message) && strstr(error.message, "33") != NULL);
  char *huge = malloc(100000);
  CHECK(huge != NULL);
  memset(huge, '.', 100000);
  CHECK_RESULT(rk_range_parse(huge, 100000, RK_RANGE_KIND_CIDR, &none, &error), RK_RESULT_INVALID_RANGE);
  CHECK(error.message_len < RK_ERROR_MESSAGE_CAPACITY && error.message[error.message_len] == 0);
  free(huge);
}

static void numbers(void) {
  rk_range range = {.extent = 7};
  rk_range_description description;
  CHECK_OK(rk_range_parse(TEXT("100000 numbers, 16 static"), RK_RANGE_KIND_NUMBERS, &range, NULL));
  CHECK_OK(rk_range_describe(&range, &description));
  CHECK(description.size == 100000 && description.static_band == 16);
  CHECK(strcmp(description.text, "100000 numbers, 16 static") == 0);
  rk_error error;
  CHECK_RESULT(rk_range_parse(TEXT("16 numbers, 16 static"), RK_RANGE_KIND_NUMBERS, &range, &error),
               RK_RESULT_INVALID_RANGE);
  CHECK(strstr(error.message, "16 numbers, 16 static") != NULL);

  rk_allocator *allocator = NULL;
  rk_value last = rk_value_number(99999), past = rk_value_number(100000), port = rk_value_port(7), next;
  CHECK_OK(rk_allocator_new(&range, RK_STRATEGY_DYNAMIC_BAND_FIRST, 7, &allocator, &error));
  CHECK_OK(rk_allocator_allocate(allocator, &last));
  CHECK_RESULT(rk_allocator_allocate(allocator, &last), RK_RESULT_ALREADY_ALLOCATED);
  CHECK_RESULT(rk_allocator_allocate(allocator, &past), RK_RESULT_NOT_IN_RANGE);
  CHECK_RESULT(rk_allocator_allocate(allocator, &port), RK_RESULT_NOT_IN_RANGE);
  CHECK_OK(rk_allocator_allocate_next(allocator, &next));
  CHECK(next.kind == RK_VALUE_KIND_NUMBER && next.high == 0 && next.low >= 16 && next.low < 99999);
  char text[64];
  size_t len = 0;
  CHECK_OK(rk_value_text(&last, text, sizeof text, &len));
  CHECK(len == 5 && memcmp(text, "99999", len) == 0);
  rk_allocator_free(allocator);
}

static void allocate(void) {
  rk_range range = range_of("10.0.0.0/29");
  rk_allocator *allocator = NULL;
  CHECK_OK(rk_allocator_new(&range, RK_STRATEGY_CONTIGUOUS, 1, &allocator, NULL));

  rk_value value;
  CHECK_OK(rk_allocator_allocate(allocator, AT(ipv4(0x0a000002))));
  CHECK_RESULT(rk_allocator_allocate(allocator, AT(ipv4(0x0a000002))), RK_RESULT_ALREADY_ALLOCATED);
  CHECK_RESULT(rk_allocator_allocate(allocator, AT(ipv4(0x0a000007))), RK_RESULT_NOT_IN_RANGE);
  CHECK_OK(rk_allocator_allocate_next(allocator, &value));
  CHECK(same(value, ipv4(0x0a000001)));
  bool answer = false;
  CHECK_OK(rk_allocator_has(allocator, AT(ipv4(0x0a000002)), &answer));
  CHECK(answer);
  CHECK_OK(rk_allocator_release(allocator, AT(ipv4(0x0a000002)), &answer));
  CHECK(answer);
  CHECK_OK(rk_allocator_release(allocator, AT(ipv4(0x0a000002)), &answer));
  CHECK(!answer);
  CHECK_OK(rk_allocator_release(allocator, AT(ipv4(0x0b000002)), NULL));
  uint32_t count = 0;
  CHECK_OK(rk_allocator_used(allocator, &count));
  CHECK(count == 1);

  /* A dry run answers as the allocator would, and changes nothing there. */
  rk_allocator *dry_run = NULL;
  CHECK_OK(rk_allocator_dry_run(allocator, &dry_run));
  for (int i = 0; i < 5; i++) CHECK_OK(rk_allocator_allocate_next(dry_run, &value));
  CHECK_RESULT(rk_allocator_allocate_next(dry_run, &value), RK_RESULT_FULL);
  rk_allocator_free(dry_run);
  CHECK_OK(rk_allocator_used(allocator, &count));
  CHECK(count == 1);

  /* Batches: all or nothing. */
  rk_value next = {0, 0, RK_VALUE_KIND_ANY};
  rk_value requests[3] = {next, ipv4(0x0a000002), ipv4(0x0a000001)};
  rk_value values[3];
  rk_error error;
  CHECK_RESULT(rk_allocator_allocate_batch(allocator, requests, 3, values, &error), RK_RESULT_ALREADY_ALLOCATED);
  CHECK(error.detail_kind == RK_DETAIL_REQUEST && error.detail.request == 2);
  CHECK_OK(rk_allocator_used(allocator, &count));
  CHECK(count == 1);
  CHECK_OK(rk_allocator_allocate_batch(allocator, requests, 2, values, &error));
  CHECK(same(values[0], ipv4(0x0a000003)) && same(values[1], ipv4(0x0a000002)));

  /* In use now: .1, .2 and .3. */

  uint8_t data[8] = {0};
  size_t len = 0;
  CHECK_OK(rk_allocator_snapshot(allocator, data, sizeof data, &len));
  CHECK(len == 1 && data[0] == 7);
  CHECK_OK(rk_allocator_release(allocator, &values[0], NULL));
  CHECK_OK(rk_allocator_release(allocator, &values[1], NULL));
  CHECK_OK(rk_allocator_restore(allocator, TEXT("10.0.0.0/29"), data, len, &error));
  CHECK_OK(rk_allocator_used(allocator, &count));
  CHECK(count == 3);
  CHECK_RESULT(rk_allocator_restore(allocator, TEXT("10.0.0.0/28"), data, len, &error), RK_RESULT_MISMATCHED_RANGE);
  data[0] = 0x40;
  CHECK_RESULT(rk_allocator_restore(allocator, TEXT("10.0.0.0/29"), data, len, &error), RK_RESULT_BITS_PAST_RANGE);
  CHECK(error.detail_kind == RK_DETAIL_BITS && error.detail.bits.highest_offset == 6 && error.detail.bits.byte == 0);
  CHECK_OK(rk_allocator_used(allocator, &count));
  CHECK(count == 3);
  rk_allocator_free(allocator);
}

static void leak_counters(void) {
  rk_range range = range_of("30000-32767");
  rk_leak_counters *counters = NULL;
  CHECK_OK(rk_leak_counters_new(&range, 2, &counters, NULL));
  rk_value leaked[2] = {rk_value_port(30001), rk_value_port(30000)};
  rk_value due[2];
  size_t n = 9;
  uint8_t count = 0;
  CHECK_OK(rk_leak_counters_advance(counters, leaked, 2, due, 2, &n));
  CHECK(n == 0);
  CHECK_OK(rk_leak_counters_count(counters, AT(rk_value_port(30001)), &count));
  CHECK(count == 1);
  CHECK_OK(rk_leak_counters_advance(counters, leaked, 1, due, 2, &n));
  CHECK(n == 1 && same(due[0], rk_value_port(30001)));
  CHECK_OK(rk_leak_counters_advance(counters, leaked, 2, due, 2, &n));
  CHECK(n == 0);
  rk_leak_counters_free(counters);
}

int main(void) {
  CHECK(rk_abi_version() == RK_ABI_VERSION);
  ranges();
  numbers();
  allocate();
  leak_counters();
  return 0;
}

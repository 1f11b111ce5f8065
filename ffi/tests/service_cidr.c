/* A CIDR of a ServiceCIDR object: what it says of addresses, and the order in which they are tried. */
#include "check.h"

enum { ALL = 254, BAND = 16 };

/* All candidates of 10.0.0.0/24, by pages of the given size. */
static void search(const rk_service_cidr *cidr, uint64_t start, size_t capacity, uint32_t *order) {
  rk_value page[64];
  size_t total = 0, len = 0;
  do {
    CHECK_OK(rk_service_cidr_candidates(cidr, start, total, page, capacity, &len));
    CHECK(len <= capacity && total + len <= ALL);
    for (size_t i = 0; i < len; i++) {
      CHECK(page[i].kind == RK_VALUE_KIND_IPV4 && page[i].high == 0);
      order[total++] = (uint32_t)page[i].low;
    }
  } while (len == capacity);
  CHECK(total == ALL);
}

int main(void) {
  rk_service_cidr *cidr = NULL;
  rk_value value;
  rk_service_cidr_description description;
  uint64_t offset = 0;
  CHECK_OK(rk_service_cidr_parse(TEXT("10.0.0.7/24"), &cidr, NULL));
  CHECK_OK(rk_service_cidr_describe(cidr, &description));
  CHECK(description.size == ALL && description.static_band == BAND);
  for (uint64_t at = 0; at < ALL; at++) {
    CHECK_OK(rk_service_cidr_value_at(cidr, at, &value));
    CHECK(same(value, rk_value_ipv4(0x0a000001 + (uint32_t)at)));
    CHECK_OK(rk_service_cidr_offset_of(cidr, &value, &offset));
    CHECK(offset == at);
  }
  CHECK_RESULT(rk_service_cidr_value_at(cidr, ALL, &value), RK_RESULT_NOT_IN_RANGE);
  CHECK_RESULT(rk_service_cidr_offset_of(cidr, AT(rk_value_ipv4(0x0a000000)), &offset), RK_RESULT_NOT_IN_RANGE);
  CHECK_RESULT(rk_service_cidr_offset_of(cidr, AT(rk_value_ipv4(0x0a0000ff)), &offset), RK_RESULT_NOT_IN_RANGE);

  const uint64_t starts[] = {0, 100, 237, 238, UINT64_MAX};
  for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
    uint32_t order[ALL], again[ALL];
    search(cidr, starts[i], 64, order);
    search(cidr, starts[i], 7, again);
    CHECK(memcmp(order, again, sizeof order) == 0);
    for (uint32_t n = 0; n < ALL; n++) {
      const uint32_t dynamic = ALL - BAND;
      const uint32_t expected = n < dynamic ? BAND + (uint32_t)((starts[i] % dynamic + n) % dynamic)
                                            : (uint32_t)((starts[i] % BAND + n - dynamic) % BAND);
      CHECK(order[n] == 0x0a000001 + expected);
    }
  }
  rk_service_cidr_free(cidr);

  CHECK_OK(rk_service_cidr_parse(TEXT("fd00::/64"), &cidr, NULL));
  CHECK_OK(rk_service_cidr_describe(cidr, &description));
  CHECK(description.size == UINT64_MAX);
  CHECK_OK(rk_service_cidr_value_at(cidr, UINT64_MAX - 1, &value));
  CHECK(value.kind == RK_VALUE_KIND_IPV6 && value.high == 0xfd00ull << 48 && value.low == UINT64_MAX);
  rk_service_cidr_free(cidr);
  return 0;
}

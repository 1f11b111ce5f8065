/* A CIDR of a ServiceCIDR object and its addresses. */
#include "check.h"

enum { ALL = 254, BAND = 16 };

int main(void) {
  rk_service_cidr cidr;
  rk_value value;
  rk_service_cidr_description description;
  uint64_t offset = 0;
  CHECK_OK(rk_service_cidr_parse(TEXT("10.0.0.7/24"), &cidr, NULL));
  CHECK_OK(rk_service_cidr_describe(&cidr, &description));
  CHECK(description.size == ALL && description.static_band == BAND);
  for (uint64_t at = 0; at < ALL; at++) {
    CHECK_OK(rk_service_cidr_value_at(&cidr, at, &value));
    CHECK(same(value, ipv4(0x0a000001 + (uint32_t)at)));
    CHECK_OK(rk_service_cidr_offset_of(&cidr, &value, &offset));
    CHECK(offset == at);
  }
  CHECK_RESULT(rk_service_cidr_value_at(&cidr, ALL, &value), RK_RESULT_NOT_IN_RANGE);
  CHECK_RESULT(rk_service_cidr_offset_of(&cidr, AT(ipv4(0x0a000000)), &offset), RK_RESULT_NOT_IN_RANGE);
  CHECK_RESULT(rk_service_cidr_offset_of(&cidr, AT(ipv4(0x0a0000ff)), &offset), RK_RESULT_NOT_IN_RANGE);

  CHECK_OK(rk_service_cidr_parse(TEXT("fd00::/64"), &cidr, NULL));
  CHECK_OK(rk_service_cidr_describe(&cidr, &description));
  CHECK(description.size == UINT64_MAX);
  CHECK_OK(rk_service_cidr_value_at(&cidr, UINT64_MAX - 1, &value));
  CHECK(value.kind == RK_VALUE_KIND_IPV6 && value.high == 0xfd00ull << 48 && value.low == UINT64_MAX);
  return 0;
}

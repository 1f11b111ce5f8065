/* A program that links two static libraries in Rust. */
#include "../check.h"

int second_catches(void);

int main(void) {
  rk_range range;
  rk_error error;
  CHECK(second_catches() == 7);
  CHECK_OK(rk_range_parse(TEXT("10.0.0.0/24"), RK_RANGE_KIND_CIDR, &range, NULL));
  CHECK_RESULT(rk_range_parse(TEXT("10.0.0.0/33"), RK_RANGE_KIND_CIDR, &range, &error), RK_RESULT_INVALID_RANGE);
  CHECK(second_catches() == 7);
  return 0;
}

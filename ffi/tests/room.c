/* The structs that a program allocates are as long as in every header of this ABI: a program that was compiled against
 * one of them calls a later library. A new field takes the place of reserved words. A size that has to change is a new
 * RK_ABI_VERSION. */
#include "check.h"

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " has another size than in this ABI")

#if UINTPTR_MAX > 0xffffffffu && RK_ABI_VERSION == 0
SIZE(rk_value, 24);
SIZE(rk_range, 32);
SIZE(rk_service_cidr, 32);
SIZE(rk_range_description, 80);
SIZE(rk_error, 560);
SIZE(rk_finding, 72);
SIZE(rk_offset_state, 24);
SIZE(rk_cell, 64);
SIZE(rk_leak, 72);
SIZE(rk_claimant, 32);
SIZE(rk_object_repair, 56);
SIZE(rk_run, 56);
SIZE(rk_range_report, 96);
SIZE(rk_ledger_value, 32);
SIZE(rk_ledger_allocation, 40);
SIZE(rk_ledger_change, 40);
SIZE(rk_ledger_usage, 40);
SIZE(rk_ledger_request, 32);
SIZE(rk_index_changes, 32);
SIZE(rk_reservation, 32);
SIZE(rk_known, 40);
SIZE(rk_step, 72);
SIZE(rk_finished, 80);
SIZE(rk_operation, 64);
SIZE(rk_edit, 112);
SIZE(rk_address_object, 24);
SIZE(rk_service_cidr_description, 32);
SIZE(rk_claim, 64);
SIZE(rk_event, 72);
SIZE(rk_batch, 56);
#endif

int main(void) {
  /* Reserved words are written, so that they mean nothing until they have a meaning. */
  rk_range range = range_of("10.0.0.0/24");
  rk_range_description description;
  memset(&description, 0xff, sizeof description);
  CHECK_OK(rk_range_describe(&range, &description));
  CHECK(description.size == 254 && description.reserved[0] == 0 && description.reserved[1] == 0);
  return 0;
}

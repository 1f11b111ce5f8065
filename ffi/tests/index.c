/* The index of IPAddress objects: reservations, what is observed, and what a list changes. */
#include "check.h"

int main(void) {
  rk_service_cidr small, wide;
  rk_index *index = NULL;
  bool answer = false;
  CHECK_OK(rk_service_cidr_parse(TEXT("10.0.0.0/29"), &small, NULL));
  CHECK_OK(rk_service_cidr_parse(TEXT("fd00::/64"), &wide, NULL));
  const rk_service_cidr order[2] = {small, wide};
  CHECK_OK(rk_index_new(7, &index));
  CHECK_OK(rk_index_insert_cidr(index, &small, &answer));
  CHECK(answer);
  CHECK_OK(rk_index_insert_cidr(index, &small, &answer));
  CHECK(!answer);
  CHECK_OK(rk_index_insert_cidr(index, &wide, &answer));

  /* A list of revision 100 has one object. */
  const rk_value one = ipv4(0x0a000001), two = ipv4(0x0a000002);
  rk_index_changes changes;
  CHECK_OK(rk_index_replace(index, &one, 1, 100, &changes));
  CHECK(changes.added == 1 && changes.removed == 0);
  CHECK_RESULT(rk_index_replace(index, &two, 1, 99, &changes), RK_RESULT_STALE_LIST);
  CHECK_RESULT(rk_index_replace(index, AT(rk_value_port(80)), 1, 101, &changes), RK_RESULT_INVALID_ARGUMENT);
  CHECK_OK(rk_index_is_taken(index, &one, &answer));
  CHECK(answer);

  /* Five addresses are left: each is offered once. */
  rk_reservation all[5], more, v6, ordered;
  for (int i = 0; i < 5; i++) {
    CHECK_OK(rk_index_reserve(index, order, 1, 60, &all[i]));
    for (int j = 0; j < i; j++) CHECK(!same(all[i].address, all[j].address));
  }
  CHECK_RESULT(rk_index_reserve(index, order, 1, 60, &more), RK_RESULT_FULL);
  CHECK_RESULT(rk_index_reserve_address(index, &one, 60, &more), RK_RESULT_ALREADY_ALLOCATED);
  CHECK_RESULT(rk_index_reserve_address(index, AT(ipv4(0x0b000001)), 60, &more), RK_RESULT_NOT_IN_RANGE);
  CHECK_OK(rk_index_reserve(index, order + 1, 1, 70, &v6));
  CHECK_OK(rk_index_reserve(index, order, 2, 70, &ordered));
  CHECK(v6.address.kind == RK_VALUE_KIND_IPV6 && ordered.address.kind == RK_VALUE_KIND_IPV6);

  /* One is created, one is refused, one was created by another client, two have no answer. */
  CHECK_OK(rk_index_confirm(index, &all[0], 101));
  CHECK_OK(rk_index_abort(index, &all[1]));
  CHECK_OK(rk_index_already_exists(index, &all[2]));
  CHECK_OK(rk_index_added(index, &all[2].address, 99));
  CHECK_OK(rk_index_removed(index, &all[2].address, 100));
  size_t expired = 0;
  CHECK_OK(rk_index_expire(index, 60, &expired));
  CHECK(expired == 2);
  uint64_t used = 0, available = 0;
  CHECK_OK(rk_index_usage(index, &small, &used, &available));
  CHECK(used == 2 && available == 4);

  /* A watch that lags: only what comes after the creation counts. */
  CHECK_OK(rk_index_removed(index, &all[0].address, 100));
  CHECK_OK(rk_index_is_taken(index, &all[0].address, &answer));
  CHECK(answer);
  CHECK_OK(rk_index_added(index, &all[0].address, 101));
  CHECK_OK(rk_index_removed(index, &all[0].address, 102));
  CHECK_OK(rk_index_is_taken(index, &all[0].address, &answer));
  CHECK(!answer);

  /* An object that was created without a reservation is as good. */
  CHECK_OK(rk_index_created(index, &all[0].address, 103));
  CHECK_OK(rk_index_removed(index, &all[0].address, 102));
  CHECK_OK(rk_index_is_taken(index, &all[0].address, &answer));
  CHECK(answer);
  CHECK_OK(rk_index_removed(index, &all[0].address, 103));
  CHECK_OK(rk_index_is_taken(index, &all[0].address, &answer));
  CHECK(!answer);

  CHECK_OK(rk_index_remove_cidr(index, &wide, &answer));
  CHECK(answer);
  CHECK_RESULT(rk_index_usage(index, &wide, &used, &available), RK_RESULT_INVALID_ARGUMENT);
  CHECK_RESULT(rk_index_reserve(index, order + 1, 1, 70, &v6), RK_RESULT_FULL);
  rk_index_free(index);
  return 0;
}

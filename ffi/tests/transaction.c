/* Transactions: commit, rollback, and an end without either. */
#include "check.h"

static uint32_t used(const rk_allocator *allocator) {
  uint32_t count = 0;
  CHECK_OK(rk_allocator_used(allocator, &count));
  return count;
}

int main(void) {
  rk_range *range = range_of("30000-30003");
  rk_allocator *allocator = NULL;
  CHECK_OK(rk_allocator_new(range, RK_STRATEGY_CONTIGUOUS, 1, &allocator));
  rk_range_free(range);
  CHECK_OK(rk_allocator_allocate(allocator, port(30000)));

  rk_transaction *transaction = NULL;
  rk_value value;
  CHECK_OK(rk_transaction_new(allocator, &transaction));
  CHECK_OK(rk_transaction_allocate(transaction, port(30002)));
  CHECK_RESULT(rk_transaction_allocate(transaction, port(30002)), RK_RESULT_ALREADY_ALLOCATED);
  CHECK_RESULT(rk_transaction_allocate(transaction, port(1)), RK_RESULT_NOT_IN_RANGE);
  CHECK_OK(rk_transaction_release(transaction, port(30000)));
  bool has = false;
  CHECK_OK(rk_allocator_has(allocator, port(30000), &has));
  CHECK(has);
  CHECK_OK(rk_transaction_commit(transaction));
  CHECK_OK(rk_allocator_has(allocator, port(30000), &has));
  CHECK(!has && used(allocator) == 1);
  CHECK_RESULT(rk_transaction_commit(transaction), RK_RESULT_CLOSED);
  CHECK_RESULT(rk_transaction_rollback(transaction), RK_RESULT_CLOSED);
  CHECK_RESULT(rk_transaction_allocate_next(transaction, &value), RK_RESULT_CLOSED);
  rk_transaction_free(transaction);
  CHECK(used(allocator) == 1);

  rk_value next = {0, 0, RK_VALUE_KIND_NEXT};
  rk_value requests[4] = {next, port(30003), next, next};
  rk_value values[4];
  rk_error error;
  CHECK_OK(rk_transaction_new(allocator, &transaction));
  CHECK_OK(rk_transaction_release(transaction, port(30002)));
  CHECK_RESULT(rk_transaction_allocate_batch(transaction, requests, 4, values, &error), RK_RESULT_FULL);
  CHECK(error.value == 3 && used(allocator) == 1);
  CHECK_OK(rk_transaction_allocate_batch(transaction, requests, 3, values, &error));
  CHECK(same(values[0], port(30000)) && same(values[1], port(30003)) && same(values[2], port(30001)));
  CHECK_RESULT(rk_transaction_allocate_next(transaction, &value), RK_RESULT_FULL);
  CHECK_OK(rk_transaction_rollback(transaction));
  CHECK(used(allocator) == 1);
  rk_transaction_free(transaction);

  /* Freed while open: rolled back. */
  CHECK_OK(rk_transaction_new(allocator, &transaction));
  CHECK_OK(rk_transaction_allocate_next(transaction, &value));
  CHECK(used(allocator) == 2);
  rk_transaction_free(transaction);
  CHECK(used(allocator) == 1);

  /* It outlives the allocator's handle, but not its state. */
  rk_transaction *other = NULL;
  CHECK_OK(rk_transaction_new(allocator, &transaction));
  CHECK_OK(rk_transaction_new(allocator, &other));
  CHECK_OK(rk_transaction_allocate_next(other, &value));
  rk_allocator *copy = NULL;
  CHECK_OK(rk_allocator_dry_run(allocator, &copy));
  rk_allocator_free(allocator);
  CHECK_OK(rk_transaction_allocate_next(transaction, &value));
  CHECK_OK(rk_transaction_commit(transaction));
  rk_transaction_free(transaction);
  rk_transaction_free(other);

  CHECK_OK(rk_transaction_new(copy, &transaction));
  CHECK_OK(rk_allocator_close(copy));
  CHECK_RESULT(rk_transaction_allocate_next(transaction, &value), RK_RESULT_CLOSED);
  CHECK_RESULT(rk_transaction_commit(transaction), RK_RESULT_CLOSED);
  rk_transaction_free(transaction);
  rk_allocator_free(copy);
  return 0;
}

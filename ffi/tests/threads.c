/* Several threads on one handle: no value is handed out twice. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, EACH = 5000 };

static rk_allocator *allocator;

static void *allocate(void *out) {
  rk_value *values = out;
  for (int i = 0; i < EACH; i++) CHECK_OK(rk_allocator_allocate_next(allocator, &values[i]));
  return NULL;
}

int main(void) {
  static rk_value values[THREADS][EACH];
  pthread_t threads[THREADS];
  rk_range range = range_of("10.0.0.0/16");
  CHECK_OK(rk_allocator_new(&range, RK_STRATEGY_RANDOM_SCAN, 1, &allocator, NULL));
  for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, allocate, values[i]) == 0);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  static bool seen[65536];
  for (int i = 0; i < THREADS; i++) {
    for (int j = 0; j < EACH; j++) {
      uint32_t offset = 0;
      CHECK_OK(rk_range_offset_of(&range, &values[i][j], &offset));
      CHECK(!seen[offset]);
      seen[offset] = true;
    }
  }
  uint32_t used = 0;
  CHECK_OK(rk_allocator_used(allocator, &used));
  CHECK(used == THREADS * EACH);
  rk_allocator_free(allocator);
  return 0;
}

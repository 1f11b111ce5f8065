/* Hands out two ClusterIPs, takes one back, and prints the value to be stored in etcd. */
#include <rangekeeper.h>
#include <stdio.h>
#include <string.h>

#define MUST(call) \
  do { rk_result r = (call); if (r) { fprintf(stderr, #call ": %s\n", rk_result_name(r)); return 1; } } while (0)

int main(void) {
  static const char cidr[] = "10.96.0.0/12", dns[] = "10.96.0.10";
  static uint8_t data[(1 << 20) / 8], stored[sizeof data + 256]; /* a /12 has fewer than 2^20 addresses */
  char text[45];
  rk_range range;
  rk_allocator *allocator;
  rk_range_allocation *object;
  rk_value named, next;
  size_t text_len, data_len, stored_len;

  MUST(rk_range_parse(cidr, strlen(cidr), RK_RANGE_KIND_CIDR, &range, NULL));
  MUST(rk_allocator_new(&range, RK_STRATEGY_CONTIGUOUS, 0, &allocator, NULL));
  MUST(rk_address_parse(dns, strlen(dns), &named));
  MUST(rk_allocator_allocate(allocator, &named));
  MUST(rk_allocator_allocate_next(allocator, &next));
  MUST(rk_allocator_release(allocator, &named, NULL));
  MUST(rk_value_text(&next, text, sizeof text, &text_len));
  printf("next: %.*s\nstored: ", (int)text_len, text);

  MUST(rk_allocator_snapshot(allocator, data, sizeof data, &data_len));
  MUST(rk_range_allocation_new(RK_FORM_PROTOBUF, &object));
  MUST(rk_range_allocation_set(object, cidr, strlen(cidr), data, data_len, NULL));
  MUST(rk_range_allocation_encode(object, stored, sizeof stored, &stored_len));
  for (size_t i = 0; i < stored_len; i++) printf("%02x", stored[i]);
  putchar('\n');
  rk_range_allocation_free(object), rk_allocator_free(allocator);
}

/* The stored object: each file named on the command line must decode, and encode to the same bytes. */
#include "check.h"

static void round_trip(const char *path) {
  FILE *file = fopen(path, "rb");
  CHECK(file != NULL);
  static uint8_t stored[1 << 20];
  size_t len = fread(stored, 1, sizeof stored, file);
  fclose(file);
  CHECK(len > 0);

  rk_range_allocation *object = NULL;
  rk_error error;
  CHECK_OK(rk_range_allocation_decode(stored, len, &object, &error));
  uint8_t *encoded = malloc(len);
  size_t encoded_len = 0;
  CHECK(encoded != NULL);
  CHECK_OK(rk_range_allocation_encode(object, encoded, len, &encoded_len));
  CHECK(encoded_len == len && memcmp(encoded, stored, len) == 0);
  free(encoded);
  rk_range_allocation_free(object);

  /* Every truncation is an error with a place, or another valid object: never a fault. */
  for (size_t cut = 0; cut < len; cut += 1 + len / 97) {
    object = NULL;
    rk_result result = rk_range_allocation_decode(stored, cut, &object, &error);
    CHECK(result == RK_RESULT_OK || (result == RK_RESULT_INVALID_OBJECT && object == NULL && error.detail_kind == RK_DETAIL_BYTE && error.detail.byte <= cut));
    rk_range_allocation_free(object);
  }
}

int main(int argc, char **argv) {
  CHECK(argc > 1);
  for (int i = 1; i < argc; i++) round_trip(argv[i]);

  for (uint32_t form = RK_FORM_PROTOBUF; form <= RK_FORM_YAML; form++) {
    rk_range_allocation *object = NULL;
    CHECK_OK(rk_range_allocation_new(form, &object));
    const uint8_t data[2] = {1, 2};
    CHECK_OK(rk_range_allocation_set(object, TEXT("30000-32767"), data, 2, NULL));
    uint8_t stored[512];
    size_t len = 0;
    CHECK_OK(rk_range_allocation_encode(object, stored, sizeof stored, &len));
    rk_range_allocation_free(object);
    object = NULL;
    CHECK_OK(rk_range_allocation_decode(stored, len, &object, NULL));
    char range[32];
    uint8_t again[4];
    CHECK_OK(rk_range_allocation_range(object, range, sizeof range, &len));
    CHECK(len == 11 && memcmp(range, "30000-32767", len) == 0);
    CHECK_OK(rk_range_allocation_data(object, again, sizeof again, &len));
    CHECK(len == 2 && memcmp(again, data, 2) == 0);
    rk_range_allocation_free(object);
  }

  rk_range_allocation *none = NULL;
  rk_error error;
  const char encrypted[] = "k8s:enc:aescbc:v1:key1:...";
  CHECK_RESULT(rk_range_allocation_decode((const uint8_t *)encrypted, sizeof encrypted - 1, &none, &error), RK_RESULT_ENCRYPTED);
  CHECK(none == NULL && strstr(error.message, "aescbc") != NULL);
  return 0;
}

/* What every test program needs: CHECK ends it with the place and the condition that does not hold. */
#ifndef CHECK_H
#define CHECK_H

#include <rangekeeper.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                          \
  do {                                                                            \
    if (!(condition)) {                                                           \
      fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                    \
    }                                                                             \
  } while (0)

#define CHECK_RESULT(call, expected)                                              \
  do {                                                                            \
    rk_result result_ = (call);                                                   \
    if (result_ != (expected)) {                                                  \
      fprintf(stderr, "%s:%d: %s returned %s, not %s\n", __FILE__, __LINE__, #call,   \
              rk_result_name(result_), #expected);                                \
      exit(1);                                                                    \
    }                                                                             \
  } while (0)

#define CHECK_OK(call) CHECK_RESULT(call, RK_RESULT_OK)

/* A text literal as pointer and length. */
#define TEXT(literal) (literal), (sizeof(literal) - 1)

/* The address of a value that a function returns. */
#define AT(value) ((rk_value[]){value})

/* An IPv4 address by its number. */
static inline rk_value ipv4(uint32_t number) {
  const uint8_t bytes[4] = {(uint8_t)(number >> 24), (uint8_t)(number >> 16), (uint8_t)(number >> 8), (uint8_t)number};
  return rk_value_ipv4(bytes);
}

static inline bool same(rk_value a, rk_value b) {
  return a.high == b.high && a.low == b.low && a.kind == b.kind;
}

static inline rk_range range_of(const char *text) {
  rk_range range;
  uint32_t kind = strpbrk(text, ".:") ? RK_RANGE_KIND_CIDR : RK_RANGE_KIND_PORTS;
  CHECK_OK(rk_range_parse(text, strlen(text), kind, &range, NULL));
  return range;
}

/* Memory for a batch. */
typedef struct memory {
  uint32_t words[256];
  char text[2048];
} memory;

static inline rk_batch batch_in(memory *memory) {
  return rk_batch_in(memory->words, sizeof memory->words / sizeof *memory->words, memory->text, sizeof memory->text);
}

/* A Service with one ClusterIP and, unless it is 0, one TCP node port. */
static inline void add_service(rk_services *services, const char *cluster_ip, int32_t node_port, int32_t health_check_port) {
  rk_text address = rk_text_of(cluster_ip);
  rk_service_port port = {rk_text_of("TCP"), node_port};
  rk_service service = {address, &address, 1, &port, node_port != 0, health_check_port};
  CHECK_OK(rk_services_add(services, &service));
}

#endif

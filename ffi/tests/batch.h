/* Puts batches together, the plain way. */
#ifndef BATCH_H
#define BATCH_H

#include "check.h"

typedef struct batch {
  uint32_t words[256];
  size_t words_len;
  char text[2048];
  size_t text_len;
  size_t count;
} batch;

static inline void add_word(batch *b, uint32_t word) {
  CHECK(b->words_len < sizeof b->words / sizeof *b->words);
  b->words[b->words_len++] = word;
}

static inline void add_text(batch *b, const char *text) {
  size_t len = strlen(text);
  CHECK(b->text_len + len <= sizeof b->text);
  memcpy(b->text + b->text_len, text, len);
  b->text_len += len;
  add_word(b, (uint32_t)len);
}

/* A Service with one ClusterIP and, unless it is 0, one TCP node port. */
static inline void add_service(batch *b, const char *cluster_ip, int32_t node_port, int32_t health_check_port) {
  add_word(b, 2 | (node_port != 0 ? 1u << 16 : 0));
  add_word(b, (uint32_t)health_check_port);
  add_text(b, cluster_ip);
  add_word(b, RK_SAME_TEXT);
  if (node_port != 0) {
    add_word(b, (uint32_t)node_port);
    add_word(b, RK_PROTOCOL_TCP);
  }
  b->count++;
}

static inline rk_services services_of(const batch *b) {
  rk_services services = {b->words, b->words_len, (const uint8_t *)b->text, b->text_len, b->count};
  return services;
}

#endif


/* The rest is written by hand in ffi/inline.h: it builds values and batches without a call of the library. */

/** A port. One above 65535 is refused where it is used. */
static inline rk_value rk_value_port(uint32_t port) {
  rk_value value = {0, port, RK_VALUE_KIND_PORT};
  return value;
}

/** An IPv4 address by its 4 bytes in the order of the network, as they are in struct in_addr. */
static inline rk_value rk_value_ipv4(const uint8_t bytes[4]) {
  rk_value value = {0, 0, RK_VALUE_KIND_IPV4};
  int i;
  for (i = 0; i < 4; i++) value.low = value.low << 8 | bytes[i];
  return value;
}

/** An IPv6 address by its 16 bytes in the order of the network, as they are in struct in6_addr. */
static inline rk_value rk_value_ipv6(const uint8_t bytes[16]) {
  rk_value value = {0, 0, RK_VALUE_KIND_IPV6};
  int i;
  for (i = 0; i < 8; i++) {
    value.high = value.high << 8 | bytes[i];
    value.low = value.low << 8 | bytes[i + 8];
  }
  return value;
}

/** A number of a range of numbers. One that a 32-bit integer does not hold is refused where it is used. */
static inline rk_value rk_value_number(uint64_t number) {
  rk_value value = {0, number, RK_VALUE_KIND_NUMBER};
  return value;
}

/** A request for any free value, in a batch of requests. */
static inline rk_value rk_value_any(void) {
  rk_value value = {0, 0, RK_VALUE_KIND_ANY};
  return value;
}

/** A text: UTF-8, without a terminating NUL. */
typedef struct rk_text {
  const char *bytes;
  size_t len;
} rk_text;

/** A text that ends with a NUL. */
static inline rk_text rk_text_of(const char *bytes) {
  rk_text text = {bytes, strlen(bytes)};
  return text;
}

/** One of a Service's spec.ports. */
typedef struct rk_service_port {
  rk_text protocol;
  int32_t node_port;
} rk_service_port;

/** The fields of a Service that an audit reads. */
typedef struct rk_service {
  /** spec.clusterIP as it is: empty, "None" and malformed text too. */
  rk_text cluster_ip;
  /** spec.clusterIPs; if there are none, spec.clusterIP is the only address. */
  const rk_text *cluster_ips;
  size_t cluster_ips_len;
  /** spec.ports; those without a node port may be left out. */
  const rk_service_port *ports;
  size_t ports_len;
  /** spec.healthCheckNodePort; 0 for none. */
  int32_t health_check_node_port;
} rk_service;

/** The fields of an IPAddress object that an audit reads; the text of a missing field is empty. */
typedef struct rk_ip_address {
  /** metadata.creationTimestamp in seconds since 1970. */
  int64_t created;
  /** metadata.resourceVersion: the revision of its last write; 0 if unknown. */
  uint64_t revision;
  /** metadata.name: the address. */
  rk_text name;
  /** The label ipaddress.kubernetes.io/managed-by. */
  rk_text managed_by;
  /** spec.parentRef. */
  rk_text parent_group, parent_resource, parent_namespace, parent_name;
  /** Whether there is no spec.parentRef. An empty one is a reference to nothing. */
  bool without_parent;
} rk_ip_address;

/** An empty batch in the caller's memory. Some thousand Services per batch are a good size. */
static inline rk_batch rk_batch_in(uint32_t *words, size_t words_capacity, char *text, size_t text_capacity) {
  rk_batch batch = {words, 0, words_capacity, text, 0, text_capacity, 0};
  return batch;
}

/** Empties a batch. */
static inline void rk_batch_clear(rk_batch *batch) {
  batch->words_len = batch->text_len = batch->count = 0;
}

/* Not for callers: false if there is no room. */
static inline bool rk_batch_put_word(rk_batch *batch, uint32_t word) {
  if (batch->words_len == batch->words_capacity) return false;
  batch->words[batch->words_len++] = word;
  return true;
}

/* Not for callers: adds the low and the high half of a number; false if there is no room. */
static inline bool rk_batch_put_number(rk_batch *batch, uint64_t number) {
  return rk_batch_put_word(batch, (uint32_t)number) && rk_batch_put_word(batch, (uint32_t)(number >> 32));
}

/* Not for callers: adds a text with its length, to which base is added; false if there is no room. */
static inline bool rk_batch_put_text(rk_batch *batch, rk_text text, uint32_t base) {
  /* UINT32_MAX is RK_SAME_TEXT and no length. */
  if (text.len >= UINT32_MAX - base || text.len > batch->text_capacity - batch->text_len) return false;
  if (text.len > 0) memcpy(batch->text + batch->text_len, text.bytes, text.len);
  batch->text_len += text.len;
  return rk_batch_put_word(batch, base + (uint32_t)text.len);
}

/* Not for callers: counts an object whose parts were added, or removes them if one did not fit. */
static inline rk_result rk_batch_end(rk_batch *batch, rk_batch before, bool fits) {
  if (!fits) *batch = before;
  if (fits) batch->count++;
  return fits ? RK_RESULT_OK : RK_RESULT_BUFFER_TOO_SMALL;
}

/* Not for callers: whether two texts are the same. */
static inline bool rk_text_is(rk_text a, rk_text b) {
  return a.len == b.len && (a.len == 0 || memcmp(a.bytes, b.bytes, a.len) == 0);
}

/* Not for callers: false if there is no room. */
static inline bool rk_batch_put_protocol(rk_batch *batch, rk_text protocol) {
  if (rk_text_is(protocol, rk_text_of("TCP"))) return rk_batch_put_word(batch, RK_PROTOCOL_TCP);
  if (rk_text_is(protocol, rk_text_of("UDP"))) return rk_batch_put_word(batch, RK_PROTOCOL_UDP);
  if (rk_text_is(protocol, rk_text_of("SCTP"))) return rk_batch_put_word(batch, RK_PROTOCOL_SCTP);
  return rk_batch_put_text(batch, protocol, RK_PROTOCOL_TEXT);
}

/**
 * Adds a Service to a batch for rk_audit_observe_services.
 *
 * RK_RESULT_BUFFER_TOO_SMALL if it does not fit: observe the batch, clear it, and add the Service again.
 * RK_RESULT_INVALID_ARGUMENT if it has more than 65,534 spec.clusterIPs or more than 65,535 ports.
 */
RK_MUST_CHECK
static inline rk_result rk_services_add(rk_services *services, const rk_service *service) {
  rk_batch *batch = &services->batch, before = services->batch;
  if (service->cluster_ips_len > 65534 || service->ports_len > 65535) return RK_RESULT_INVALID_ARGUMENT;
  bool fits = rk_batch_put_word(batch, (uint32_t)(1 + service->cluster_ips_len) | (uint32_t)service->ports_len << 16) &&
              rk_batch_put_word(batch, (uint32_t)service->health_check_node_port) &&
              rk_batch_put_text(batch, service->cluster_ip, 0);
  rk_text last = service->cluster_ip;
  for (size_t i = 0; fits && i < service->cluster_ips_len; last = service->cluster_ips[i++]) {
    bool same = rk_text_is(service->cluster_ips[i], last);
    fits = same ? rk_batch_put_word(batch, RK_SAME_TEXT) : rk_batch_put_text(batch, service->cluster_ips[i], 0);
  }
  for (size_t i = 0; fits && i < service->ports_len; i++) {
    fits = rk_batch_put_word(batch, (uint32_t)service->ports[i].node_port) &&
           rk_batch_put_protocol(batch, service->ports[i].protocol);
  }
  return rk_batch_end(batch, before, fits);
}

/**
 * Adds the name of the next Service of a batch, and its metadata.creationTimestamp in seconds since 1970 and etcd's
 * create revision, both 0 if unknown; RK_RESULT_BUFFER_TOO_SMALL if it does not fit.
 */
RK_MUST_CHECK
static inline rk_result rk_service_names_add(rk_service_names *names, rk_text service_namespace, rk_text name,
                                             int64_t created, uint64_t create_revision) {
  rk_batch *batch = &names->batch, before = names->batch;
  bool fits = rk_batch_put_number(batch, (uint64_t)created) && rk_batch_put_number(batch, create_revision) &&
              rk_batch_put_text(batch, service_namespace, 0) && rk_batch_put_text(batch, name, 0);
  return rk_batch_end(batch, before, fits);
}

/**
 * Adds an IPAddress object to a batch for rk_audit_observe_ip_addresses.
 *
 * RK_RESULT_BUFFER_TOO_SMALL if it does not fit: observe the batch, clear it, and add the object again.
 */
RK_MUST_CHECK
static inline rk_result rk_ip_addresses_add(rk_ip_addresses *objects, const rk_ip_address *object) {
  rk_batch *batch = &objects->batch, before = objects->batch;
  bool fits = rk_batch_put_number(batch, (uint64_t)object->created) && rk_batch_put_number(batch, object->revision) &&
              rk_batch_put_word(batch, object->without_parent) &&
              rk_batch_put_text(batch, object->name, 0) && rk_batch_put_text(batch, object->managed_by, 0) &&
              rk_batch_put_text(batch, object->parent_group, 0) && rk_batch_put_text(batch, object->parent_resource, 0) &&
              rk_batch_put_text(batch, object->parent_namespace, 0) && rk_batch_put_text(batch, object->parent_name, 0);
  return rk_batch_end(batch, before, fits);
}

/* Batches as the header's inline functions write them. */
#include "check.h"

/* Two Services of all shapes, in the words that rk_services documents. */
static void words_of_services(void) {
  static const uint32_t expected[] = {
      3 | 2u << 16, 0, 10, RK_SAME_TEXT, 7, 30053, RK_PROTOCOL_UDP, 30053, RK_PROTOCOL_TCP,
      2 | 1u << 16, 31000, 10, RK_SAME_TEXT, 30080, RK_PROTOCOL_TEXT + 4,
  };
  const char text[] = "10.96.0.10fd00::a10.96.0.20QUIC";
  const rk_text first[] = {rk_text_of("10.96.0.10"), rk_text_of("fd00::a")}, second = rk_text_of("10.96.0.20");
  const rk_service_port dns[] = {{rk_text_of("UDP"), 30053}, {rk_text_of("TCP"), 30053}}, web = {rk_text_of("QUIC"), 30080};
  const rk_service services[] = {{first[0], first, 2, dns, 2, 0}, {second, &second, 1, &web, 1, 31000}};
  memory m;
  rk_services batch = {batch_in(&m)};
  CHECK_OK(rk_services_add(&batch, &services[0]));
  CHECK_OK(rk_services_add(&batch, &services[1]));
  CHECK(batch.batch.count == 2 && batch.batch.words_len == sizeof expected / sizeof *expected);
  CHECK(memcmp(m.words, expected, sizeof expected) == 0);
  CHECK(batch.batch.text_len == sizeof text - 1 && memcmp(m.text, text, sizeof text - 1) == 0);

  rk_claim claims[7];
  size_t n = 0;
  CHECK_OK(rk_services_claims(&batch, 1, claims, 7, &n, NULL));
  CHECK(n == 5 && claims[0].value.kind == RK_VALUE_KIND_IPV6 && claims[0].service == 0);
  CHECK(claims[0].text_len == 7 && memcmp(m.text + claims[0].text, "fd00::a", 7) == 0);
  CHECK(same(claims[1].value, rk_value_port(30053)) && claims[1].text == 0 && claims[1].text_len == 0);
  CHECK(same(claims[2].value, ipv4(0x0a600014)) && claims[2].service == 1 && claims[2].text == 17 && claims[2].text_len == 10);
  CHECK(same(claims[4].value, rk_value_port(31000)));

  /* Without room for the last word or byte the batch is as before, and what is beyond stays alone. */
  for (size_t words = 0; words < 15; words++) {
    memory small = {{0}, {0}};
    rk_services full = {rk_batch_in(small.words, words, small.text, sizeof small.text)};
    rk_result result = rk_services_add(&full, &services[0]);
    CHECK(result == (words < 9 ? RK_RESULT_BUFFER_TOO_SMALL : RK_RESULT_OK));
    rk_batch before = full.batch;
    CHECK_RESULT(rk_services_add(&full, &services[1]), words < 6 ? RK_RESULT_BUFFER_TOO_SMALL : words < 9 ? RK_RESULT_OK : RK_RESULT_BUFFER_TOO_SMALL);
    if (words >= 9 || words < 6) CHECK(memcmp(&before, &full.batch, sizeof before) == 0);
    CHECK(small.words[words] == 0);
  }
  for (size_t bytes = 0; bytes < 17; bytes++) {
    memory small = {{0}, {0}};
    rk_services full = {rk_batch_in(small.words, 256, small.text, bytes)};
    CHECK_RESULT(rk_services_add(&full, &services[0]), RK_RESULT_BUFFER_TOO_SMALL);
    CHECK(full.batch.words_len == 0 && full.batch.text_len == 0 && full.batch.count == 0 && small.text[bytes] == 0);
  }
  rk_service large = services[1];
  large.cluster_ips_len = 65535;
  CHECK_RESULT(rk_services_add(&batch, &large), RK_RESULT_INVALID_ARGUMENT);
  large = services[1];
  large.ports_len = 65536;
  CHECK_RESULT(rk_services_add(&batch, &large), RK_RESULT_INVALID_ARGUMENT);
  CHECK(batch.batch.count == 2);
}

/* An audit of those Services, where nothing is stored, finds six values: one port with two protocols counts once. */
static void audit_of_services(void) {
  static const char *const ranges[] = {"10.96.0.0/12", "fd00::/108", "30000-32767"};
  const rk_text addresses[] = {rk_text_of("10.96.0.10"), rk_text_of("fd00::a")};
  const rk_service_port ports[] = {{rk_text_of("UDP"), 30053}, {rk_text_of("TCP"), 30053}};
  const rk_service service = {addresses[0], addresses, 2, ports, 2, 0};
  rk_audit *audit = NULL;
  rk_report *report = NULL;
  rk_finding findings[7];
  size_t n = 0;
  memory m;
  rk_services batch = {batch_in(&m)};
  CHECK_OK(rk_audit_new(NULL, false, NULL, &audit));
  for (int i = 0; i < 3; i++) {
    rk_range range = range_of(ranges[i]);
    CHECK_OK(rk_audit_add_bitmap(audit, &range, NULL, 0, NULL, 0, NULL));
  }
  CHECK_OK(rk_services_add(&batch, &service));
  CHECK_OK(rk_audit_observe_services(audit, NULL, &batch, NULL));
  rk_batch_clear(&batch.batch);
  add_service(&batch, "10.96.0.20", 30080, 31000);
  CHECK_OK(rk_audit_observe_services(audit, NULL, &batch, NULL));
  CHECK_OK(rk_audit_finish(audit, &report, NULL));
  CHECK_OK(rk_report_findings(report, 0, findings, 7, &n));
  CHECK(n == 6);
  rk_report_free(report);
  rk_audit_free(audit);
}

/* Values by the inline functions are those that the library reads. */
static void values(void) {
  char text[45];
  size_t len = 0;
  CHECK_OK(rk_value_text(AT(ipv4(0x0a600001)), text, sizeof text, &len));
  CHECK(len == 9 && memcmp(text, "10.96.0.1", 9) == 0);
  const uint8_t bytes[16] = {[0] = 0xfd, [15] = 10};
  CHECK_OK(rk_value_text(AT(rk_value_ipv6(bytes)), text, sizeof text, &len));
  CHECK(len == 7 && memcmp(text, "fd00::a", 7) == 0);
  CHECK_OK(rk_value_text(AT(rk_value_port(65535)), text, sizeof text, &len));
  CHECK(len == 5 && memcmp(text, "65535", 5) == 0);
  CHECK_RESULT(rk_value_text(AT(rk_value_any()), text, sizeof text, &len), RK_RESULT_INVALID_ARGUMENT);
}

int main(void) {
  words_of_services();
  audit_of_services();
  values();
  return 0;
}

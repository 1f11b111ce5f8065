/* The plans of the bootstrap controller: from what exists to what has to be changed. */
#include "check.h"

static rk_error error;
static char answer[4096];
static size_t len;

static rk_result ask(const char *question) {
  memset(answer, 0, sizeof answer);
  return rk_bootstrap_plan(question, strlen(question), answer, sizeof answer - 1, &len, &error);
}

static bool says(const char *text) { return strstr(answer, text) != NULL; }

/* A question about Endpoints that hold this, in mode master-count 3. */
static const char *endpoints(const char *existing) {
  static char question[4096];
  int written = snprintf(question, sizeof question,
      "{\"endpoints\":{\"advertiseAddress\":\"192.0.2.10\",\"mode\":{\"master-count\":3},\"stage\":\"run\","
      "\"ports\":[{\"name\":\"https\",\"port\":6443,\"protocol\":\"TCP\"}],\n\"endpoints\":%s}}",
      existing);
  CHECK(written > 0 && (size_t)written < sizeof question);
  return question;
}

int main(void) {
  CHECK_OK(ask("{\"namespaces\":{\"existing\":[\"default\",\"kube-system\"]}}"));
  CHECK(says("kube-public") && says("kube-node-lease") && !says("kube-system"));

  CHECK_OK(ask("{\"service\":{\"wanted\":{\"clusterIp\":\"10.96.0.1\",\"securePort\":6443}}}"));
  CHECK(says("\"create\"") && says("\"clusterIP\":\"10.96.0.1\"") && says("\"targetPort\":6443"));

  CHECK_OK(ask("{\"lease\":{\"advertiseAddress\":\"192.0.2.10\",\"stage\":\"run\",\"etcdPrefix\":\"/other\"}}"));
  CHECK(says("\"putLease\"") && says("/other/masterleases/192.0.2.10"));

  CHECK_OK(ask(endpoints("{\"metadata\":{\"resourceVersion\":\"7\"},\"subsets\":[{\"addresses\":[{\"ip\":\"192.0.2.9\"}]}]}")));
  CHECK(says("\"update\"") && says("192.0.2.9") && says("192.0.2.10") && says("\"resourceVersion\":\"7\""));
  /* No server holds a lease: nothing is erased. */
  CHECK_OK(ask("{\"endpoints\":{\"advertiseAddress\":\"192.0.2.10\",\"mode\":\"lease\",\"stage\":\"run\",\"ports\":[],\"leases\":[]}}"));
  CHECK(says("\"endpoints\":\"leave\"") && says("\"slice\":\"leave\"") && says("own-lease-missing"));

  /* A wrong kind is refused where it stands. */
  const char *question = endpoints("{\"apiVersion\":\"v1\",\"kind\":\"Pod\"}");
  CHECK_RESULT(ask(question), RK_RESULT_INVALID_JSON);
  size_t place = (size_t)(strstr(question, "\"Pod\"") - question);
  CHECK(error.detail_kind == RK_DETAIL_BYTE && error.detail.byte >= place && error.detail.byte <= place + 5);
  CHECK(strstr(error.message, "Pod") != NULL && strstr(error.message, "Endpoints") != NULL);
  /* So is one that stands for a kind which is known and not wanted here. */
  CHECK_RESULT(ask(endpoints("{\"kind\":\"Service\",\"apiVersion\":\"v1\"}")), RK_RESULT_INVALID_JSON);
  /* Cut off. */
  question = endpoints("{}");
  for (size_t cut = 0; cut < strlen(question); cut++) {
    rk_result result = rk_bootstrap_plan(question, cut, answer, sizeof answer, &len, &error);
    CHECK(result == RK_RESULT_INVALID_JSON && error.detail.byte <= cut);
  }
  CHECK_RESULT(ask("{\"service\":{\"wanted\":{\"clusterIp\":\"10.96.0.1\",\"securePort\":0}}}"), RK_RESULT_INVALID_CONFIG);
  CHECK(strstr(error.message, "securePort") != NULL);
  return 0;
}

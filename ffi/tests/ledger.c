/* Ledgers: a pool and stored bytes in, changes, stored bytes out; and one that two programs write. */
#include "check.h"

#define POOL "{\"range\":\"4096-16777215\",\"choice\":\"Lowest\",\"exclude\":[\"4097\"]}"
enum { NOW = 1000 };

static rk_ledger_allocation made[4];
static size_t n;
static rk_error error;

static rk_result allocate(rk_ledger *ledger, const char *owner) {
  const rk_ledger_change change = {.kind = RK_LEDGER_CHANGE_ALLOCATE};
  return rk_ledger_apply(ledger, &change, owner, strlen(owner), NOW, made, 4, &n, &error);
}

/* A store with one value, and the requests of a program to it. */
static struct {
  uint8_t value[512];
  size_t value_len;
  uint8_t version;
  size_t most; /* bytes of a value; 0 for any number */
} row;

static void play(rk_shared_ledger *shared) {
  for (;;) {
    rk_ledger_request request;
    uint8_t token[1] = {0};
    CHECK_OK(rk_shared_ledger_poll(shared, NOW, &request));
    switch (request.kind) {
      case RK_LEDGER_REQUEST_NONE:
        return;
      case RK_LEDGER_REQUEST_GET:
        CHECK_OK(rk_shared_ledger_answered(shared, row.version ? RK_LEDGER_ANSWER_GOT : RK_LEDGER_ANSWER_MISSING, NOW,
                                           row.value, row.value_len, &row.version, 1, &error));
        break;
      case RK_LEDGER_REQUEST_CREATE:
      case RK_LEDGER_REQUEST_REPLACE: {
        uint8_t value[512];
        CHECK(request.value_len <= sizeof value && request.token_len <= 1);
        CHECK_RESULT(rk_shared_ledger_put(shared, value, request.value_len - 1, token, 1), RK_RESULT_BUFFER_TOO_SMALL);
        CHECK_OK(rk_shared_ledger_put(shared, value, sizeof value, token, 1));
        if (token[0] != row.version) {
          CHECK_OK(rk_shared_ledger_answered(shared, RK_LEDGER_ANSWER_CHANGED, NOW, NULL, 0, NULL, 0, &error));
          break;
        }
        if (row.most > 0 && request.value_len > row.most) {
          CHECK_OK(rk_shared_ledger_answered(shared, RK_LEDGER_ANSWER_TOO_LARGE, NOW, NULL, 0, NULL, 0, &error));
          break;
        }
        memcpy(row.value, value, request.value_len);
        row.value_len = request.value_len;
        row.version++;
        CHECK_OK(rk_shared_ledger_answered(shared, RK_LEDGER_ANSWER_PUT, NOW, NULL, 0, &row.version, 1, &error));
        break;
      }
      default:
        CHECK(!"a request of another kind");
    }
  }
}

static uint64_t submit(rk_shared_ledger *shared, const char *owner) {
  const rk_ledger_change change = {.kind = RK_LEDGER_CHANGE_ALLOCATE_RUN, .n = 2};
  uint64_t ticket = 0;
  CHECK_OK(rk_shared_ledger_submit(shared, &change, owner, strlen(owner), &ticket, &error));
  return ticket;
}

static void in_memory(void) {
  rk_ledger *ledger = NULL, *again = NULL;
  CHECK_OK(rk_ledger_new(TEXT(POOL), NULL, 0, 7, &ledger, &error));
  CHECK_OK(allocate(ledger, "red"));
  CHECK(n == 1 && made[0].len == 1 && made[0].first.low == 4096 && made[0].first.kind == RK_LEDGER_VALUE_KIND_INTEGER);
  CHECK_OK(allocate(ledger, "red"));
  CHECK(made[0].first.low == 4096);
  CHECK_OK(allocate(ledger, ""));
  CHECK(made[0].first.low == 4098);
  const rk_ledger_change block = {.kind = RK_LEDGER_CHANGE_ALLOCATE_BLOCK, .n = 4};
  CHECK_RESULT(rk_ledger_apply(ledger, &block, TEXT("red"), NOW, made, 4, &n, &error), RK_RESULT_HAS_OTHER);
  CHECK(strstr(error.message, "red") && strstr(error.message, "4096"));
  CHECK_OK(rk_ledger_apply(ledger, &block, TEXT("blue"), NOW, made, 4, &n, &error));
  CHECK(made[0].first.low == 4112 && made[0].len == 16);

  rk_ledger_value value;
  CHECK_OK(rk_ledger_parse_value(ledger, TEXT("4112"), &value, &error));
  CHECK(value.low == 4112 && value.high == 0 && value.size == 0 && value.kind == RK_LEDGER_VALUE_KIND_INTEGER);
  CHECK_RESULT(rk_ledger_parse_value(ledger, TEXT("4095"), &value, &error), RK_RESULT_NOT_IN_RANGE);
  CHECK_RESULT(rk_ledger_parse_value(ledger, TEXT("red"), &value, &error), RK_RESULT_INVALID_ARGUMENT);
  const rk_ledger_change taken = {.kind = RK_LEDGER_CHANGE_ALLOCATE_VALUE, .value = value};
  CHECK_RESULT(rk_ledger_apply(ledger, &taken, "", 0, NOW, made, 4, &n, &error), RK_RESULT_ALREADY_ALLOCATED);
  const rk_ledger_change release = {.kind = RK_LEDGER_CHANGE_RELEASE_VALUE, .value = value};
  CHECK_RESULT(rk_ledger_apply(ledger, &release, "", 0, NOW, made, 4, &n, &error), RK_RESULT_OWNED);

  bool in_use = false;
  char owner[8];
  CHECK_OK(rk_ledger_owner_of(ledger, &value, &in_use, owner, sizeof owner, &n, &error));
  CHECK(in_use && n == 4 && memcmp(owner, "blue", 4) == 0);
  CHECK_RESULT(rk_ledger_owner_of(ledger, &value, &in_use, owner, 3, &n, &error), RK_RESULT_BUFFER_TOO_SMALL);
  CHECK_OK(rk_ledger_owned_by(ledger, TEXT("blue"), made, 4, &n));
  CHECK(n == 1 && made[0].len == 16);
  char text[32];
  CHECK_OK(rk_ledger_value_text(&value, text, sizeof text, &n));
  CHECK(n == 4 && memcmp(text, "4112", 4) == 0);
  rk_ledger_usage usage;
  CHECK_OK(rk_ledger_count(ledger, &usage));
  CHECK(usage.used == 18 && usage.cooling == 0 && usage.size == 16777215 - 4096 && usage.reserved[0] == 0);
  rk_ledger_value values[4];
  uint64_t next = 0;
  CHECK_OK(rk_ledger_values(ledger, 1, values, 4, &n, &next));
  CHECK(n == 4 && values[0].low == 4098 && values[3].low == 4114 && next == 4115 - 4096);

  char answer[512];
  const char *question = "{\"owners\":[\"red\"],\"passes\":1}";
  CHECK_OK(rk_ledger_audit(ledger, question, strlen(question), answer, sizeof answer, &n, &error));
  answer[n] = 0;
  CHECK(strstr(answer, "\"due\":[\"blue\"]") && strstr(answer, "\"reason\":\"NoOwner\",\"value\":\"4098\""));
  CHECK_RESULT(rk_ledger_audit(ledger, TEXT("{\"owners\":[]}"), answer, sizeof answer, &n, &error), RK_RESULT_INVALID_JSON);

  /* What is stored is the same ledger; a release that does not fit changes nothing. */
  uint8_t stored[256];
  size_t len = 0;
  CHECK_OK(rk_ledger_encode(ledger, stored, sizeof stored, &len));
  CHECK_OK(rk_ledger_new(TEXT(POOL), stored, len, 7, &again, &error));
  const rk_ledger_change give_back = {.kind = RK_LEDGER_CHANGE_RELEASE_OWNER};
  CHECK_RESULT(rk_ledger_apply(again, &give_back, TEXT("blue"), NOW, NULL, 0, &n, &error), RK_RESULT_BUFFER_TOO_SMALL);
  CHECK(n == 1);
  CHECK_OK(rk_ledger_apply(again, &give_back, TEXT("blue"), NOW, made, 4, &n, &error));
  CHECK(n == 1 && made[0].len == 16);
  CHECK_OK(rk_ledger_apply(again, &give_back, TEXT("blue"), NOW, made, 4, &n, &error));
  CHECK(n == 0);
  rk_ledger_free(again);
  rk_ledger_free(ledger);

  /* What cannot be read says where. */
  CHECK_RESULT(rk_ledger_new(TEXT("{\"range\":\"1-2\"}"), NULL, 0, 7, &ledger, &error), RK_RESULT_INVALID_JSON);
  CHECK(strstr(error.message, "choice") && error.detail_kind == RK_DETAIL_BYTE);
  CHECK_RESULT(rk_ledger_new(TEXT("{\"range\":\"2-1\",\"choice\":\"Lowest\"}"), NULL, 0, 7, &ledger, &error), RK_RESULT_INVALID_RANGE);
  CHECK_RESULT(rk_ledger_new(TEXT("{\"range\":\"1-2\",\"choice\":\"Lowest\"}"), stored, len, 7, &ledger, &error), RK_RESULT_MISMATCHED_RANGE);
  CHECK_RESULT(rk_ledger_new(TEXT(POOL), stored, 9, 7, &ledger, &error), RK_RESULT_INVALID_OBJECT);
}

static void shared(void) {
  rk_shared_ledger *first = NULL, *second = NULL;
  CHECK_OK(rk_shared_ledger_new(TEXT(POOL), 1, &first, &error));
  CHECK_OK(rk_shared_ledger_new(TEXT(POOL), 2, &second, &error));
  rk_ledger *known = NULL;
  CHECK_RESULT(rk_shared_ledger_known(first, &known), RK_RESULT_NOT_INITIALISED);
  const uint64_t a = submit(first, "a");
  CHECK_RESULT(rk_shared_ledger_outcome(first, a, made, 4, &n, &error), RK_RESULT_NOT_ENDED);
  play(first);
  const uint64_t b = submit(second, "b");
  play(second);
  CHECK_RESULT(rk_shared_ledger_outcome(first, a, NULL, 0, &n, &error), RK_RESULT_BUFFER_TOO_SMALL);
  CHECK_OK(rk_shared_ledger_outcome(first, a, made, 4, &n, &error));
  CHECK(n == 1 && made[0].first.low == 4098 && made[0].len == 2);
  CHECK_RESULT(rk_shared_ledger_outcome(first, a, made, 4, &n, &error), RK_RESULT_NOT_ENDED);
  CHECK_OK(rk_shared_ledger_outcome(second, b, made, 4, &n, &error));
  CHECK(made[0].first.low == 4100);

  /* A read writes nothing. */
  const rk_ledger_change read = {.kind = RK_LEDGER_CHANGE_READ};
  const uint8_t version = row.version;
  uint64_t ticket = 0;
  CHECK_OK(rk_shared_ledger_submit(first, &read, NULL, 0, &ticket, &error));
  play(first);
  CHECK_OK(rk_shared_ledger_outcome(first, ticket, NULL, 0, &n, &error));
  CHECK(n == 0 && row.version == version);

  /* A caller that goes, and a program that wrote in between. */
  const uint64_t c = submit(first, ""), d = submit(first, "d");
  CHECK_OK(rk_shared_ledger_cancel(first, c));
  play(first);
  CHECK_OK(rk_shared_ledger_outcome(first, d, made, 4, &n, &error));
  CHECK(made[0].first.low == 4102);
  CHECK_OK(rk_shared_ledger_known(first, &known));
  rk_ledger_usage usage;
  CHECK_OK(rk_ledger_count(known, &usage));
  CHECK(usage.used == 6);
  rk_ledger_free(known);

  /* No answer to the write of a change without an owner. */
  const uint64_t e = submit(first, "");
  rk_ledger_request request;
  CHECK_OK(rk_shared_ledger_poll(first, NOW, &request));
  CHECK(request.kind == RK_LEDGER_REQUEST_REPLACE);
  CHECK_OK(rk_shared_ledger_poll(first, NOW, &request));
  CHECK(request.kind == RK_LEDGER_REQUEST_NONE);
  CHECK_OK(rk_shared_ledger_answered(first, RK_LEDGER_ANSWER_NONE, NOW, NULL, 0, NULL, 0, &error));
  CHECK_RESULT(rk_shared_ledger_outcome(first, e, made, 4, &n, &error), RK_RESULT_UNANSWERED);

  /* A change that is too large for the store, beside one that is not. */
  play(first);
  row.most = row.value_len + 60;
  const uint64_t fits = submit(first, "g"), large = submit(first, "an owner whose name has more than the sixty bytes that there are");
  play(first);
  CHECK_OK(rk_shared_ledger_outcome(first, fits, made, 4, &n, &error));
  CHECK_RESULT(rk_shared_ledger_outcome(first, large, made, 4, &n, &error), RK_RESULT_REFUSED);
  CHECK(strstr(error.message, "larger than the store allows"));
  row.most = 0;
  rk_shared_ledger_free(first);

  /* A program that loses the race waits, as others write. */
  submit(second, "f");
  CHECK_OK(rk_shared_ledger_poll(second, NOW, &request));
  CHECK_OK(rk_shared_ledger_answered(second, RK_LEDGER_ANSWER_CHANGED, NOW + 1000000, NULL, 0, NULL, 0, &error));
  CHECK_OK(rk_shared_ledger_poll(second, NOW + 1000000, &request));
  CHECK(request.kind == RK_LEDGER_REQUEST_WAIT && request.until > NOW + 1000000);
  rk_shared_ledger_free(second);
}

int main(void) {
  in_memory();
  shared();
  return 0;
}

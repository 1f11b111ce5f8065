/* A committer against one key in memory: create, also if a swap is lost, allocate in one swap, be told of a conflict,
   release, read, repair. */
#include "check.h"

static rk_committer *committer;
static uint64_t revision;
static rk_key_state state;
static uint8_t stored[256];
static size_t stored_len;
static int swaps;
static int lost; /* how many of the next swaps get lost */
static uint64_t now = 1;

static void put(const uint8_t *value, size_t len) {
  revision++;
  state.version++;
  state.mod_revision = revision;
  if (state.create_revision == 0) state.create_revision = revision;
  memcpy(stored, value, len);
  stored_len = len;
}

/* Does what the committer asks for until there is nothing to do. */
static void run(void) {
  for (;;) {
    rk_step step;
    CHECK_OK(rk_committer_poll(committer, now, &step));
    if (step.kind == RK_STEP_IDLE) return;
    if (step.kind == RK_STEP_WAIT) {
      now = step.wait_until;
      continue;
    }
    if (step.kind == RK_STEP_SWAP && lost > 0) {
      lost--;
      CHECK_OK(rk_committer_unknown(committer, now));
      continue;
    }
    rk_answer answer = {7, 0, 2, false, state, stored, stored_len};
    if (step.kind != RK_STEP_READ && memcmp(&step.guard, &state, sizeof state) == 0) {
      answer.held = true;
      if (step.kind == RK_STEP_SWAP) {
        uint8_t value[256];
        size_t len;
        CHECK_OK(rk_committer_value(committer, value, sizeof value, &len));
        CHECK(len == step.value_len);
        put(value, len);
        swaps++;
      }
    }
    answer.revision = revision;
    CHECK_OK(rk_committer_answered(committer, now, &answer));
  }
}

static rk_finished finished[8];
static rk_value values[8];
static uint8_t bytes[64];

static void expect(size_t count) {
  size_t n;
  CHECK_OK(rk_committer_finished(committer, finished, 8, values, 8, bytes, sizeof bytes, &n));
  CHECK(n == count);
}

static uint64_t submit(uint32_t kind, const rk_value *value, uint32_t count, uint64_t anchor) {
  rk_operation operation = {kind, count, UINT64_MAX, anchor, anchor};
  uint64_t ticket;
  CHECK_OK(rk_committer_submit(committer, &operation, 1, value, count, &ticket));
  return ticket;
}

int main(void) {
  rk_range *range = range_of("10.0.0.0/29");
  CHECK_OK(rk_committer_new(range, RK_STRATEGY_CONTIGUOUS, 360000000000u, 1, &committer));

  rk_value any = {0, 0, RK_VALUE_KIND_ANY};
  uint64_t early = submit(RK_OPERATION_ALLOCATE, &any, 1, 0);
  run();
  expect(1);
  CHECK(finished[0].ticket == early && finished[0].outcome == RK_OUTCOME_FAILED);
  CHECK(finished[0].result == RK_RESULT_NOT_INITIALISED);

  lost = 1;
  submit(RK_OPERATION_CREATE, NULL, 0, 0);
  run();
  expect(1);
  CHECK(finished[0].outcome == RK_OUTCOME_CREATED && finished[0].yes && swaps == 1 && lost == 0);

  /* Two operations of three values in all: one swap. */
  rk_value wanted[] = {{0, 0, RK_VALUE_KIND_ANY}, {0, 0x0a000004, RK_VALUE_KIND_IPV4}, {0, 0, RK_VALUE_KIND_ANY}};
  rk_operation two[] = {{RK_OPERATION_ALLOCATE, 2, UINT64_MAX, 0, 0}, {RK_OPERATION_ALLOCATE, 1, UINT64_MAX, 0, 0}};
  uint64_t tickets[2];
  CHECK_OK(rk_committer_submit(committer, two, 2, wanted, 3, tickets));
  run();
  expect(2);
  CHECK(swaps == 2 && finished[0].ticket == tickets[0] && finished[1].ticket == tickets[1]);
  CHECK(finished[0].outcome == RK_OUTCOME_ALLOCATED && finished[0].values == 2 && finished[1].values == 1);
  CHECK(values[0].low == 0x0a000001 && values[1].low == 0x0a000004 && values[2].low == 0x0a000002);
  CHECK(finished[0].revision == 2 && finished[0].use_until > 0);
  rk_known known;
  CHECK_OK(rk_committer_known(committer, &known));
  CHECK(known.revision == 2 && known.used == 3 && known.initialised);

  /* Another writer takes .3: the swap finds another state and goes on from there. */
  rk_range_allocation *object;
  CHECK_OK(rk_range_allocation_decode(stored, stored_len, &object, NULL));
  uint8_t others[256];
  size_t len;
  CHECK_OK(rk_range_allocation_set(object, TEXT("10.0.0.0/29"), (const uint8_t *)"\x0f", 1));
  CHECK_OK(rk_range_allocation_encode(object, others, sizeof others, &len));
  rk_range_allocation_free(object);
  put(others, len);
  rk_value third = {0, 0x0a000003, RK_VALUE_KIND_IPV4};
  submit(RK_OPERATION_ALLOCATE, &third, 1, 0);
  submit(RK_OPERATION_RELEASE, &wanted[1], 1, 2);
  run();
  expect(2);
  for (int i = 0; i < 2; i++) {
    if (finished[i].outcome == RK_OUTCOME_FAILED) CHECK(finished[i].result == RK_RESULT_ALREADY_ALLOCATED);
    else CHECK(finished[i].outcome == RK_OUTCOME_RELEASED && finished[i].yes);
  }

  /* What is stored, and passes over no Services at all, when nothing is protected any more as handed out a moment ago:
     in the second one a grace later all is due. */
  now += 3600000000000u;
  rk_leak_tracker *passes;
  CHECK_OK(rk_leak_tracker_new(2, 360000000000u, &passes));
  for (uint32_t cleared = 0; cleared <= 3; cleared += 3, now += 360000000000u) {
    rk_repair_pass *pass;
    rk_audit *audit;
    rk_report *report;
    CHECK_OK(rk_repair_pass_new(passes, &pass));
    CHECK_OK(rk_repair_pass_begin(pass, committer, NULL));
    submit(RK_OPERATION_READ, NULL, 0, 0);
    run();
    expect(1);
    CHECK(finished[0].outcome == RK_OUTCOME_READ && finished[0].yes && finished[0].bytes == 1 && bytes[0] == 7);
    CHECK_OK(rk_repair_pass_read(pass, committer, finished[0].revision, bytes, finished[0].bytes, now, NULL));
    CHECK_OK(rk_audit_new(false, NULL, &audit));
    CHECK_OK(rk_repair_pass_audit(pass, audit, NULL));
    CHECK_OK(rk_repair_pass_finish(pass, audit, &report, NULL));
    uint64_t ticket;
    CHECK_OK(rk_committer_submit_repair(committer, pass, 0, false, UINT64_MAX, &ticket, NULL));
    run();
    expect(1);
    CHECK(finished[0].ticket == ticket && finished[0].outcome == RK_OUTCOME_REPAIRED);
    CHECK(finished[0].set == 0 && finished[0].values == cleared && finished[0].number == 0);
    for (uint32_t i = 0; i < cleared; i++) CHECK(values[i].low == 0x0a000001 + i);
    rk_report_free(report);
    rk_audit_free(audit);
    rk_repair_pass_free(pass);
  }
  rk_leak_tracker_free(passes);

  rk_committer_free(committer);
  rk_range_free(range);
  return 0;
}

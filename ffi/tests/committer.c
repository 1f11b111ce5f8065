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

static rk_finished finished[8];
static rk_value values[8];
static uint8_t bytes[64];
static size_t ended; /* how many operations have ended */

static void handle(rk_event event) { CHECK_OK(rk_committer_handle(committer, &event, now)); }

/* The key is as the request expects it, or else the committer gets it. */
static void answer(const rk_key_state *guard) {
  rk_header header = {7, revision, 2};
  if (guard != NULL && memcmp(guard, &state, sizeof state) == 0) {
    handle((rk_event){.kind = RK_EVENT_HELD, .data.held = header});
    return;
  }
  rk_current current = {header, {state, stored, stored_len}};
  handle((rk_event){.kind = RK_EVENT_CURRENT, .data.current = current});
}

static void swap(const rk_step_swap *wanted) {
  if (lost > 0) {
    lost--;
    handle((rk_event){.kind = RK_EVENT_UNKNOWN});
    return;
  }
  rk_key_state before = state;
  bool held = memcmp(&wanted->guard, &before, sizeof before) == 0;
  if (held) {
    uint8_t value[256];
    size_t len;
    CHECK_OK(rk_committer_value(committer, value, sizeof value, &len));
    CHECK(len == wanted->value_len);
    put(value, len);
    swaps++;
  }
  answer(held ? &state : NULL);
}

static void fetch(const rk_step_finished *all) {
  size_t n;
  CHECK(ended == 0);
  CHECK(all->outcomes <= 8 && all->values <= 8 && all->bytes <= sizeof bytes);
  CHECK_OK(rk_committer_finished(committer, finished, 8, values, 8, bytes, sizeof bytes, &n));
  CHECK(n == all->outcomes);
  ended = n;
}

/* Does what the committer asks for until there is nothing to do. */
static void run(void) {
  for (;;) {
    rk_step step;
    CHECK_OK(rk_committer_poll(committer, now, &step));
    switch (step.kind) {
    case RK_STEP_IDLE: return;
    case RK_STEP_WAIT: now = step.data.wait.until; break;
    case RK_STEP_READ: answer(NULL); break;
    case RK_STEP_CONFIRM: answer(&step.data.confirm.guard); break;
    case RK_STEP_SWAP: swap(&step.data.swap); break;
    case RK_STEP_FINISHED: fetch(&step.data.finished); break;
    default: break; /* no change that a watch would see is missed */
    }
  }
}

static void expect(size_t count) {
  CHECK(ended == count);
  ended = 0;
}

static uint64_t submit(rk_operation operation, const rk_value *requests, size_t n) {
  uint64_t ticket;
  operation.deadline = UINT64_MAX;
  CHECK_OK(rk_committer_submit(committer, &operation, 1, requests, n, &ticket, NULL));
  return ticket;
}

static uint64_t allocate(const rk_value *request) {
  return submit((rk_operation){.kind = RK_OPERATION_ALLOCATE, .data.allocate = {1}}, request, 1);
}

static uint64_t release(rk_value value, uint64_t as_of) {
  return submit((rk_operation){.kind = RK_OPERATION_RELEASE, .data.release = {value, as_of, as_of, 0}}, NULL, 0);
}

int main(void) {
  rk_range range = range_of("10.0.0.0/29");
  CHECK_OK(rk_committer_new(&range, RK_STRATEGY_CONTIGUOUS, 360000000000u, RK_REPLACE_ALWAYS, 1, &committer, NULL));

  rk_value any = {0, 0, RK_VALUE_KIND_ANY};
  uint64_t early = allocate(&any);
  run();
  expect(1);
  CHECK(finished[0].ticket == early && finished[0].outcome == RK_OUTCOME_FAILED);
  CHECK(finished[0].data.failed.result == RK_RESULT_NOT_INITIALISED);

  lost = 1;
  submit((rk_operation){.kind = RK_OPERATION_CREATE}, NULL, 0);
  run();
  expect(1);
  uint8_t gone[256];
  size_t gone_len = 77;
  CHECK_RESULT(rk_committer_value(committer, gone, sizeof gone, &gone_len), RK_RESULT_NO_SWAP);
  CHECK(gone_len == 77);
  CHECK(finished[0].outcome == RK_OUTCOME_CREATED && finished[0].data.created.created && swaps == 1 && lost == 0);

  /* Two operations of three values in all: one swap. */
  rk_value wanted[] = {{0, 0, RK_VALUE_KIND_ANY}, {0, 0x0a000004, RK_VALUE_KIND_IPV4}, {0, 0, RK_VALUE_KIND_ANY}};
  rk_operation two[] = {{UINT64_MAX, RK_OPERATION_ALLOCATE, {{2}}}, {UINT64_MAX, RK_OPERATION_ALLOCATE, {{1}}}};
  uint64_t tickets[2];
  CHECK_OK(rk_committer_submit(committer, two, 2, wanted, 3, tickets, NULL));
  run();
  expect(2);
  CHECK(swaps == 2 && finished[0].ticket == tickets[0] && finished[1].ticket == tickets[1]);
  CHECK(finished[0].outcome == RK_OUTCOME_ALLOCATED && finished[0].data.allocated.values == 2 && finished[1].data.allocated.values == 1);
  CHECK(values[0].low == 0x0a000001 && values[1].low == 0x0a000004 && values[2].low == 0x0a000002);
  CHECK(finished[0].data.allocated.revision == 2 && finished[0].data.allocated.use_until > 0);
  rk_known known;
  CHECK_OK(rk_committer_known(committer, &known));
  CHECK(known.revision == 2 && known.used == 3 && known.initialised);

  /* Another writer takes .3: the swap finds another state and goes on from there. */
  rk_range_allocation *object;
  CHECK_OK(rk_range_allocation_decode(stored, stored_len, &object, NULL));
  uint8_t others[256];
  size_t len;
  CHECK_OK(rk_range_allocation_set(object, TEXT("10.0.0.0/29"), (const uint8_t *)"\x0f", 1, NULL));
  CHECK_OK(rk_range_allocation_encode(object, others, sizeof others, &len));
  rk_range_allocation_free(object);
  put(others, len);
  rk_value third = {0, 0x0a000003, RK_VALUE_KIND_IPV4};
  allocate(&third);
  release(wanted[1], 2);
  run();
  expect(2);
  for (int i = 0; i < 2; i++) {
    if (finished[i].outcome == RK_OUTCOME_FAILED) CHECK(finished[i].data.failed.result == RK_RESULT_ALREADY_ALLOCATED);
    else CHECK(finished[i].outcome == RK_OUTCOME_RELEASED && finished[i].data.released.freed);
  }

  /* What is stored, and passes over no Services at all, when nothing is protected any more as handed out a moment ago:
     in the second one a grace later all is due. */
  now += 3600000000000u;
  rk_leak_tracker *passes;
  CHECK_OK(rk_leak_tracker_new(2, 360000000000u, false, &passes, NULL));
  for (uint32_t cleared = 0; cleared <= 3; cleared += 3, now += 360000000000u) {
    rk_repair_pass *pass;
    rk_audit *audit;
    rk_report *report;
    CHECK_OK(rk_repair_pass_new(passes, &pass));
    CHECK_OK(rk_repair_pass_begin(pass, committer, NULL));
    submit((rk_operation){.kind = RK_OPERATION_READ}, NULL, 0);
    run();
    expect(1);
    rk_view view = finished[0].data.read;
    CHECK(finished[0].outcome == RK_OUTCOME_READ && view.initialised && view.bytes == 1 && bytes[0] == 7);
    bool needs_fence;
    CHECK_OK(rk_repair_pass_read(pass, committer, view.revision, bytes, view.bytes, now, &needs_fence, NULL));
    CHECK(needs_fence == (cleared > 0)); /* in the second pass all may be due */
    uint64_t listed = 0;
    if (needs_fence) {
      CHECK_OK(rk_repair_pass_fenced(pass, committer, listed = ++revision, 77, NULL));
    }
    CHECK_OK(rk_repair_pass_audit(pass, false, NULL, &audit, NULL));
    CHECK_OK(rk_repair_pass_finish(pass, audit, &report, NULL));
    uint64_t ticket;
    CHECK_OK(rk_committer_submit_repair(committer, pass, listed, false, UINT64_MAX, &ticket, NULL));
    run();
    expect(1);
    CHECK(finished[0].ticket == ticket && finished[0].outcome == RK_OUTCOME_REPAIRED);
    rk_repaired repaired = finished[0].data.repaired;
    CHECK(repaired.set == 0 && repaired.cleared == cleared && repaired.changed == 0);
    for (uint32_t i = 0; i < cleared; i++) CHECK(values[i].low == 0x0a000001 + i);
    rk_report_free(report);
    rk_audit_free(audit);
    rk_repair_pass_free(pass);
  }
  rk_leak_tracker_free(passes);

  rk_committer_free(committer);
  return 0;
}

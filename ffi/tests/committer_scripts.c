/* Runs the scripts of testing/testdata/commit that are named as arguments; the README there says what their lines
   mean. */
#include "check.h"
#include <stdarg.h>

static rk_range range;
static rk_committer *committer;
static rk_leak_tracker *passes;
static rk_repair_pass *pass; /* the last one that was started */
static rk_range_allocation *empty; /* what is stored before anything is in use */
static uint64_t now;
static struct {
  char name[16];
  uint64_t ticket, revision;
  uint32_t store;
  rk_value values[8];
  size_t values_len;
  uint8_t used[64]; /* what was read */
  size_t used_len;
} operations[32];
static size_t operations_len;
static struct {
  char name[16];
  uint32_t number;
} stores[4];
static size_t stores_len;

static char text[512]; /* of a step */
static const char *place;

static void fail(const char *why) {
  fprintf(stderr, "%s: %s\n", place, why);
  exit(1);
}

/* A call that fails is reported with the line of the story that made it. */
static void check_ok(rk_result result, const char *call) {
  if (result == RK_RESULT_OK) return;
  fprintf(stderr, "%s: %s returned %s\n", place, call, rk_result_name(result));
  exit(1);
}
#undef CHECK_OK
#define CHECK_OK(call) check_ok((call), #call)

static void expect(const char *expected, const char *got) {
  if (strcmp(got, expected) == 0) return;
  fprintf(stderr, "%s: expected %s, got %s\n", place, expected, got);
  exit(1);
}

/* The place of the last operation with this name. */
static size_t operation_of(const char *name) {
  size_t at = operations_len;
  while (at > 0) {
    if (strcmp(operations[--at].name, name) == 0) return at;
  }
  fail("an unknown line, or no such operation");
  return 0;
}

/* The number of the store with this name. */
static uint32_t store_of(const char *name) {
  for (size_t at = 0; at < stores_len; at++) {
    if (strcmp(stores[at].name, name) == 0) return stores[at].number;
  }
  fail("no such store");
  return 0;
}

/* Gives a name to the store that the committer knows. */
static void name_store(const char *name) {
  rk_known known;
  if (stores_len == sizeof stores / sizeof *stores) fail("too many stores");
  CHECK_OK(rk_committer_known(committer, &known));
  strncpy(stores[stores_len].name, name, 15);
  stores[stores_len++].number = known.store;
}

static void append(const char *format, ...) {
  size_t len = strlen(text);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + len, sizeof text - len, format, arguments);
  va_end(arguments);
}

static uint64_t number(const char *word) { return strtoull(word, NULL, 10); }

/* Appends the ports, each after a space and all of them after the label, if there are any. Returns the end. */
static const rk_value *append_list(const char *label, const rk_value *ports, size_t n) {
  if (n > 0) append(" %s", label);
  for (size_t i = 0; i < n; i++) append(" %u", (unsigned)ports[i].low);
  return ports + n;
}

/* Appends the ports that are in use, each after a space. */
static void append_ports(const uint8_t *data, size_t len) {
  for (size_t bit = 0; bit < 8 * len; bit++) {
    rk_value value;
    if ((data[len - 1 - bit / 8] >> bit % 8 & 1) == 0) continue;
    CHECK_OK(rk_range_value_at(&range, (uint32_t)bit, &value));
    append(" %u", (unsigned)value.low);
  }
}

static void append_state(const rk_key_state *state) {
  append("%u/%u/%u", (unsigned)state->mod_revision, (unsigned)state->version, (unsigned)state->create_revision);
}

static void append_value(size_t len) {
  uint8_t value[256], data[64];
  size_t data_len;
  rk_range_allocation *stored;
  CHECK_OK(rk_committer_value(committer, value, sizeof value, &len));
  CHECK_OK(rk_range_allocation_decode(value, len, &stored, NULL));
  CHECK_OK(rk_range_allocation_data(stored, data, sizeof data, &data_len));
  rk_range_allocation_free(stored);
  append_ports(data, data_len);
}

/* A key: its state, and what is stored if the ports that follow are in use. */
static rk_key key_of(char **words, size_t n, uint8_t *value, size_t capacity) {
  rk_range_description description;
  uint8_t data[64] = {0};
  size_t len, bytes;
  uint32_t offset;
  unsigned state[3];
  if (sscanf(words[0], "%u/%u/%u", &state[0], &state[1], &state[2]) != 3) fail("not a state");
  CHECK_OK(rk_range_describe(&range, &description));
  bytes = (description.size + 7) / 8;
  for (size_t i = 1; i < n; i++) {
    rk_value one = rk_value_port((uint32_t)number(words[i]));
    CHECK_OK(rk_range_offset_of(&range, &one, &offset));
    data[bytes - 1 - offset / 8] |= (uint8_t)(1u << offset % 8);
  }
  CHECK_OK(rk_range_allocation_set(empty, description.text, description.text_len, data, bytes, NULL));
  CHECK_OK(rk_range_allocation_encode(empty, value, capacity, &len));
  return (rk_key){{state[0], state[1], state[2]}, value, len};
}

static void handle(char **words, size_t n) {
  static const char *const kinds[] = {"", "held", "current", "unknown", "refused", "reconnected", "watched", "watch-ended", "watch-failed", "past", "compacted"};
  uint8_t value[256];
  rk_key key = {{0, 0, 0}, NULL, 0};
  rk_header header = {1, n > 1 ? number(words[1]) : 0, 1};
  rk_event event = {.kind = RK_EVENT_HELD};
  while (strcmp(words[0], kinds[event.kind]) != 0) {
    if (event.kind++ == RK_EVENT_COMPACTED) fail("an unknown event");
  }
  switch (event.kind) {
  case RK_EVENT_HELD: event.data.held = header; break;
  case RK_EVENT_CURRENT:
  case RK_EVENT_PAST:
    if (n > 2) key = key_of(words + 2, n - 2, value, sizeof value);
    event.data.current = (rk_current){header, key};
    break;
  case RK_EVENT_REFUSED: event.data.refused = (rk_refused){TEXT("no space")}; break;
  case RK_EVENT_WATCHED:
    key = key_of(words + 1, n - 1, value, sizeof value);
    event.data.watched = (rk_watched){&key, 1};
    break;
  }
  CHECK_OK(rk_committer_handle(committer, &event, now));
}

static const char *const edit_kinds[] = {"change", "force", "plan", "undo"};
static const char *const fates[] = {"set", "cleared", "already-set", "already-clear", "in-use", "unused", "reallocated", "unsure"};

/* Submits the edit of KIND LISTED SINCE and the lists of values that follow. */
static void submit_edit(char **words, size_t n, uint64_t deadline, uint64_t *ticket) {
  rk_range_description description;
  rk_value set[8], clear[8];
  uint8_t in_use[64] = {0};
  rk_edit edit = {.kind = RK_EDIT_CHANGE, .set = set, .clear = clear, .in_use = in_use, .look = 1};
  const char *list = "";
  CHECK_OK(rk_range_describe(&range, &description));
  edit.in_use_len = (description.size + 7) / 8;
  while (strcmp(words[0], edit_kinds[edit.kind - RK_EDIT_CHANGE]) != 0) {
    if (edit.kind++ == RK_EDIT_UNDO) fail("an unknown kind");
  }
  edit.listed = number(words[1]);
  edit.since = number(words[2]);
  for (size_t i = 3; i < n; i++) {
    uint64_t of = number(words[i]);
    rk_value value = rk_value_port((uint32_t)of);
    uint32_t offset;
    if (of == 0) list = words[i];
    else if (strcmp(list, "set") == 0) set[edit.set_len++] = value;
    else if (strcmp(list, "clear") == 0) clear[edit.clear_len++] = value;
    else if (strcmp(list, "pick") == 0) edit.pick = (uint32_t)of;
    else {
      CHECK_OK(rk_range_offset_of(&range, &value, &offset));
      in_use[edit.in_use_len - 1 - offset / 8] |= (uint8_t)(1u << offset % 8);
    }
  }
  CHECK_OK(rk_committer_submit_edit(committer, &edit, deadline, ticket, NULL));
}

/* A step of a repair pass. */
static void pass_line(char **words, size_t n) {
  if (strcmp(words[0], "passes") == 0 && n == 3) {
    rk_leak_tracker_free(passes);
    CHECK_OK(rk_leak_tracker_new((uint8_t)number(words[1]), number(words[2]) * 1000000, false, &passes, NULL));
  } else if (strcmp(words[0], "pass") == 0 && n == 1) {
    rk_repair_pass_free(pass);
    pass = NULL;
    CHECK_OK(rk_repair_pass_new(passes, &pass));
    CHECK_OK(rk_repair_pass_begin(pass, committer, NULL));
  } else if (strcmp(words[0], "pass-read") == 0 && n == 3) {
    bool needs_fence;
    size_t at = operation_of(words[1]);
    CHECK_OK(rk_repair_pass_read(pass, committer, operations[at].revision, operations[at].used, operations[at].used_len, now, &needs_fence, NULL));
    expect(words[2], needs_fence ? "fence" : "no-fence");
  } else if (strcmp(words[0], "pass-fenced") == 0 && n == 3) {
    CHECK_OK(rk_repair_pass_fenced(pass, committer, number(words[1]), number(words[2]), NULL));
  } else if (strcmp(words[0], "pass-list") == 0) {
    rk_audit *audit;
    rk_report *report;
    memory memory;
    rk_services services = {batch_in(&memory)};
    CHECK_OK(rk_repair_pass_audit(pass, false, NULL, &audit, NULL));
    for (size_t i = 1; i < n; i++) add_service(&services, "", (int32_t)number(words[i]), 0);
    CHECK_OK(rk_audit_observe_services(audit, NULL, &services, NULL));
    CHECK_OK(rk_repair_pass_finish(pass, audit, &report, NULL));
    rk_report_free(report);
    rk_audit_free(audit);
  } else {
    fail("an unknown line");
  }
}

/* Submits what the pass has found, with a list of Services that was made as the words say. */
static void submit_repair(char **words, size_t n, uint64_t deadline, uint64_t *ticket) {
  bool guards = n == 2 && strcmp(words[0], "guarding") == 0;
  uint64_t listed = n == 2 ? number(words[1]) : 0;
  if (!guards && !(n == 2 && strcmp(words[0], "at") == 0) && !(n == 1 && strcmp(words[0], "elsewhere") == 0)) {
    fail("an unknown list");
  }
  CHECK_OK(rk_committer_submit_repair(committer, pass, listed, guards, deadline, ticket, NULL));
}

static void submit(char **words, size_t n) {
  rk_operation operation = {.deadline = UINT64_MAX};
  rk_value requests[8];
  size_t requests_len = 0, kind = 1;
  if (strcmp(words[1], "by") == 0) {
    operation.deadline = number(words[2]) * 1000000;
    kind = 3;
  }
  if (strcmp(words[kind], "create") == 0) {
    operation.kind = RK_OPERATION_CREATE;
  } else if (strcmp(words[kind], "read") == 0) {
    operation.kind = RK_OPERATION_READ;
  } else if (strcmp(words[kind], "release") == 0) {
    operation.kind = RK_OPERATION_RELEASE;
    operation.data.release =
      (rk_release){rk_value_port((uint32_t)number(words[kind + 1])), number(words[kind + 2]), number(words[kind + 3]),
                   n > kind + 4 ? store_of(words[kind + 4]) : 0};
  } else if (strcmp(words[kind], "allocate") == 0) {
    operation.kind = RK_OPERATION_ALLOCATE;
    for (size_t i = kind + 1; i < n; i++) {
      requests[requests_len++] = strcmp(words[i], "any") == 0 ? rk_value_any() : rk_value_port((uint32_t)number(words[i]));
    }
    operation.data.allocate = (rk_allocate){requests_len};
  } else if (strcmp(words[kind], "edit") != 0 && strcmp(words[kind], "repair") != 0) {
    fail("an unknown operation");
  }
  if (operations_len == sizeof operations / sizeof *operations) fail("too many operations");
  strncpy(operations[operations_len].name, words[0], 15);
  uint64_t *ticket = &operations[operations_len++].ticket;
  if (strcmp(words[kind], "edit") == 0) submit_edit(words + kind + 1, n - kind - 1, operation.deadline, ticket);
  else if (strcmp(words[kind], "repair") == 0) submit_repair(words + kind + 1, n - kind - 1, operation.deadline, ticket);
  else CHECK_OK(rk_committer_submit(committer, &operation, 1, requests, requests_len, ticket, NULL));
}

static const char *failure(rk_result result) {
  switch (result) {
  case RK_RESULT_FULL: return "full";
  case RK_RESULT_ALREADY_ALLOCATED: return "in-use";
  case RK_RESULT_NOT_INITIALISED: return "not-initialised";
  case RK_RESULT_REFUSED: return "refused";
  case RK_RESULT_STALE_LIST: return "stale-list";
  case RK_RESULT_SERVICES_WRITTEN: return "services-written";
  case RK_RESULT_DEADLINE_EXCEEDED: return "deadline";
  case RK_RESULT_CANCELLED: return "cancelled";
  default: return rk_result_name(result);
  }
}

static void append_finished(void) {
  rk_finished all[8];
  rk_value all_values[16];
  const rk_value *values = all_values;
  uint8_t all_bytes[64], *bytes = all_bytes;
  size_t n;
  CHECK_OK(rk_committer_finished(committer, all, 8, all_values, 16, bytes, sizeof all_bytes, &n));
  for (size_t i = 0; i < n; i++) {
    size_t at = 0;
    while (operations[at].ticket != all[i].ticket) CHECK(++at < operations_len);
    append(i == 0 ? "finished %s " : ", %s ", operations[at].name);
    switch (all[i].outcome) {
    case RK_OUTCOME_ALLOCATED:
      append("allocated");
      operations[at].revision = all[i].data.allocated.revision;
      operations[at].store = all[i].data.allocated.store;
      operations[at].values_len = all[i].data.allocated.values;
      for (size_t v = 0; v < operations[at].values_len; v++) {
        append(" %u", (unsigned)values->low);
        operations[at].values[v] = *values++;
      }
      append(" at %u", (unsigned)operations[at].revision);
      break;
    case RK_OUTCOME_RELEASED: append(all[i].data.released.freed ? "freed" : "not-freed"); break;
    case RK_OUTCOME_DEFERRED:
      append(all[i].data.deferred.reason == RK_DEFERRAL_DUPLICATE ? "deferred duplicate" : "deferred");
      break;
    case RK_OUTCOME_READ:
      append("read %u", (unsigned)all[i].data.read.revision);
      append_ports(bytes, all[i].data.read.bytes);
      operations[at].revision = all[i].data.read.revision;
      operations[at].used_len = all[i].data.read.bytes;
      memcpy(operations[at].used, bytes, all[i].data.read.bytes);
      bytes += all[i].data.read.bytes;
      break;
    case RK_OUTCOME_CREATED: append(all[i].data.created.created ? "created" : "exists"); break;
    case RK_OUTCOME_EDITED:
      append("%s %u", all[i].data.edited.is_done ? "edited" : "not-edited", (unsigned)all[i].data.edited.revision);
      for (size_t v = 0; v < all[i].data.edited.values; v++) append(" %u %s", (unsigned)values++->low, fates[*bytes++]);
      break;
    case RK_OUTCOME_REPAIRED:
      append("repaired");
      values = append_list("set", values, all[i].data.repaired.set);
      values = append_list("cleared", values, all[i].data.repaired.cleared);
      if (all[i].data.repaired.changed > 0) append(" changed %u", (unsigned)all[i].data.repaired.changed);
      break;
    case RK_OUTCOME_FAILED:
      append("failed %s", failure(all[i].data.failed.result));
      values += all[i].data.failed.values;
      bytes += all[i].data.failed.stored_range + all[i].data.failed.reason;
      break;
    default: append("unknown");
    }
  }
}

static void poll(const char *expected) {
  rk_step step;
  text[0] = 0;
  CHECK_OK(rk_committer_poll(committer, now, &step));
  switch (step.kind) {
  case RK_STEP_IDLE: append("idle"); break;
  case RK_STEP_WAIT:
    append("wait");
    now = step.data.wait.until;
    break;
  case RK_STEP_READ: append("read"); break;
  case RK_STEP_READ_AT: append("read-at %u", (unsigned)step.data.read_at.revision); break;
  case RK_STEP_SWAP:
    append("swap ");
    append_state(&step.data.swap.guard);
    if (step.data.swap.services_unchanged_since != 0) append(" list %u", (unsigned)step.data.swap.services_unchanged_since);
    if (step.data.swap.look != 0) append(" look %u", (unsigned)step.data.swap.look);
    append_value(step.data.swap.value_len);
    break;
  case RK_STEP_CONFIRM:
    append("confirm ");
    append_state(&step.data.confirm.guard);
    break;
  case RK_STEP_FINISHED: append_finished(); break;
  case RK_STEP_WATCH: append("watch %u", (unsigned)step.data.watch.from); break;
  default: append("stop-watch");
  }
  expect(expected, text);
}

static rk_committer *new_committer(void) {
  rk_committer *c;
  CHECK_OK(rk_committer_new(&range, RK_STRATEGY_CONTIGUOUS, 360000000000u, RK_REPLACE_ALWAYS, 1, &c, NULL));
  return c;
}

static void end_story(void) {
  rk_committer_free(committer);
  rk_range_allocation_free(empty);
  rk_repair_pass_free(pass);
  rk_leak_tracker_free(passes);
  pass = NULL;
  passes = NULL;
  operations_len = stores_len = 0;
}

static void begin_story(const char *spec) {
  uint64_t ticket;
  uint8_t value[256];
  size_t len;
  rk_step step;
  rk_operation create = {.deadline = UINT64_MAX, .kind = RK_OPERATION_CREATE};
  rk_event missing = {.kind = RK_EVENT_CURRENT, .data.current = {{1, 1, 1}, {{0, 0, 0}, NULL, 0}}};
  end_story();
  now = 1000000000;
  range = range_of(spec);
  committer = new_committer();
  CHECK_OK(rk_committer_submit(committer, &create, 1, NULL, 0, &ticket, NULL));
  CHECK_OK(rk_committer_poll(committer, now, &step));
  CHECK_OK(rk_committer_handle(committer, &missing, now));
  CHECK_OK(rk_committer_poll(committer, now, &step));
  CHECK_OK(rk_committer_value(committer, value, sizeof value, &len));
  CHECK_OK(rk_range_allocation_decode(value, len, &empty, NULL));
  rk_committer_free(committer);
  committer = new_committer();
}

/* A line about one operation. */
static void operation_line(const char *what, const char *name) {
  size_t at = operation_of(name);
  if (strcmp(what, "cancel") == 0) CHECK_OK(rk_committer_cancel(committer, operations[at].ticket));
  else if (strcmp(what, "abandon") == 0) CHECK_OK(rk_committer_abandon(committer, operations[at].revision, operations[at].store, operations[at].values, operations[at].values_len));
  else if (strcmp(what, "written") == 0) CHECK_OK(rk_committer_written(committer, operations[at].values, operations[at].values_len));
  else fail("an unknown line");
}

static void run_line(char *line) {
  char *words[32] = {line};
  size_t n = 1;
  if (strncmp(line, "poll ", 5) == 0) {
    poll(line + 5);
    return;
  }
  strtok(line, " ");
  for (char *word = strtok(NULL, " "); word != NULL && n < 32; word = strtok(NULL, " ")) words[n++] = word;
  if (strncmp(line, "pass", 4) == 0) pass_line(words, n);
  else if (n == 1) fail("an unknown line");
  else if (strcmp(line, "committer") == 0) begin_story(words[1]);
  else if (strcmp(line, "clock") == 0) now = number(words[1]) * 1000000;
  else if (strcmp(line, "submit") == 0) submit(words + 1, n - 1);
  else if (strcmp(line, "handle") == 0) handle(words + 1, n - 1);
  else if (strcmp(line, "store") == 0) name_store(words[1]);
  else operation_line(line, words[1]);
}

int main(int argc, char **argv) {
  CHECK(argc > 1);
  for (int i = 1; i < argc; i++) {
    char line[256], where[512];
    FILE *script = fopen(argv[i], "r");
    CHECK(script != NULL);
    for (int at = 1; fgets(line, sizeof line, script) != NULL; at++) {
      line[strcspn(line, "\n")] = 0;
      snprintf(where, sizeof where, "%s:%d", argv[i], at);
      place = where;
      if (line[0] != 0 && line[0] != '#') run_line(line);
    }
    fclose(script);
  }
  end_story();
  return 0;
}

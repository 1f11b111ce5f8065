/* The functions of src/exchange.rs, for the generator of the Go back end. No program in C has them. */

rk_result rk_exchange_range(const struct rk_committer *committer, struct rk_range *range, struct rk_error *error);
rk_result rk_exchange_begin(const struct rk_repair_pass *pass, const struct rk_range *range, struct rk_error *error);
rk_result rk_exchange_keep(const struct rk_committer *committer, struct rk_error *error);
rk_result rk_exchange_since(const struct rk_repair_pass *pass, const struct rk_range *range, uint64_t revision,
                         uint8_t *said, size_t capacity, size_t *len, struct rk_error *error);
rk_result rk_exchange_followed(const struct rk_committer *committer, const uint8_t *since, size_t since_len,
                            uint8_t *said, size_t capacity, size_t *len, struct rk_error *error);
rk_result rk_exchange_read(const struct rk_repair_pass *pass, const struct rk_range *range, const uint8_t *followed, size_t followed_len,
                        uint64_t revision, const uint8_t *data, size_t data_len, uint64_t now, bool *needs_fence,
                        struct rk_error *error);
rk_result rk_exchange_fenced(const struct rk_repair_pass *pass, const struct rk_range *range, uint64_t fence, uint64_t look,
                          struct rk_error *error);
rk_result rk_exchange_needs(const struct rk_repair_pass *pass, const struct rk_range *range, bool *sets, uint32_t *outside,
                         struct rk_error *error);
rk_result rk_exchange_check(const struct rk_committer *committer, bool sets, uint32_t outside, struct rk_error *error);
rk_result rk_exchange_due(const struct rk_repair_pass *pass, const struct rk_range *range, uint8_t *said, size_t capacity, size_t *len,
                       struct rk_error *error);
rk_result rk_exchange_handed_out(const struct rk_committer *committer, const uint8_t *due, size_t due_len,
                              uint8_t *said, size_t capacity, size_t *len, struct rk_error *error);
rk_result rk_exchange_diff(const struct rk_repair_pass *pass, const struct rk_range *range, const uint8_t *handed_out, size_t handed_out_len,
                        uint64_t at, bool is_guarded, uint8_t *said, size_t capacity, size_t *len, struct rk_error *error);
rk_result rk_exchange_submit(const struct rk_committer *committer, const uint8_t *diff, size_t diff_len, uint64_t at, bool is_guarded,
                          uint64_t deadline, uint64_t *ticket, struct rk_error *error);

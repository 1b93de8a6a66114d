// Declares the functions of the library, except the bridge to librdkafka. The C compiler and cffi read this file, so it
// has neither preprocessor lines nor function bodies.

int64_t decode_hex(const uint8_t *lines, int64_t count, const uint8_t *prefix, int64_t prefix_size, int64_t width,
                   uint8_t tag, uint8_t *rows);
void hash_rows(const uint8_t *rows, int64_t count, int64_t width, uint64_t seed, uint64_t *hashes);
void bloom_add(uint64_t *words, int64_t word_count, const uint64_t *hashes, int64_t count);
void bloom_contains(const uint64_t *words, int64_t word_count, const uint64_t *hashes, int64_t count,
                    uint8_t *may_contain);

int64_t find_long_integers(const uint8_t *text, int64_t size, int32_t *lines, int32_t *offsets, int64_t capacity,
                           int64_t *newline_count, int64_t *has_non_ascii);

int64_t read_json_field(const uint8_t *text, int64_t size, const int32_t *sizes, int64_t count, const uint8_t *name,
                        int64_t name_size, int64_t strings_only, int64_t skip_non_ascii, int64_t max_chars,
                        uint8_t *out, int32_t *unparsed_rows, int64_t *unparsed_count);

void find_starts(const int32_t *sizes, int64_t count, int32_t *starts);
int64_t rows_size(const int32_t *sizes, const int32_t *rows, int64_t count);
int64_t copy_rows(const uint8_t *buffer, const int32_t *starts, const int32_t *sizes, const int32_t *rows,
                  int64_t count, uint8_t *out);
int64_t split_lines(const uint8_t *text, int64_t size, int32_t *sizes, int64_t capacity, uint8_t first_byte,
                    uint8_t byte, int64_t *has_first_byte, int64_t *has_byte);

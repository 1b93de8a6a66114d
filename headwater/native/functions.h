// The functions of the library. The C compiler and cffi read this file, so it has neither preprocessor lines nor bodies.

int64_t decode_hex(const uint8_t *lines, int64_t count, const uint8_t *prefix, int64_t prefix_size, int64_t width,
                   uint8_t tag, uint8_t *rows);
void hash_rows(const uint8_t *rows, int64_t count, int64_t width, uint64_t seed, uint64_t *hashes);
void add_to_filter(uint64_t *filter, int64_t words, const uint64_t *hashes, int64_t count);
void look_into_filter(const uint64_t *filter, int64_t words, const uint64_t *hashes, int64_t count, uint8_t *maybe);

int64_t survey_lines(const uint8_t *text, int64_t size, int32_t *lines, int32_t *places, int64_t room,
                     int64_t *newlines_found, int64_t *wide);

int64_t read_members(const uint8_t *text, int64_t size, const int32_t *sizes, int64_t count, const uint8_t *name,
                     int64_t name_size, int64_t strings_only, int64_t ascii_only, int64_t most, uint8_t *out,
                     int32_t *doubtful, int64_t *doubts);

void find_starts(const int32_t *sizes, int64_t count, int32_t *starts);
int64_t texts_size(const int32_t *sizes, const int32_t *rows, int64_t count);
int64_t gather_texts(const uint8_t *text, const int32_t *starts, const int32_t *sizes, const int32_t *rows,
                     int64_t count, uint8_t *out);
int64_t split_lines(const uint8_t *text, int64_t size, int32_t *sizes, int64_t room, uint8_t mark, uint8_t letter,
                    int64_t *marked, int64_t *with_letter);

// Reads one field of many JSON records: https://www.rfc-editor.org/rfc/rfc8259
//
// A newline follows each record and stops every scan: no string, number or literal contains it, and `skip_space` checks
// the end of the record. UTF-8 is not validated.
//
// The functions `skip_…` return the position after what they skip, or NULL when `at` is the position of something else.

#include "common.h"

enum {
    MAX_DEPTH = 64,  // of arrays and objects
    FIRST_PRINTABLE = 0x20,
    QUOTE_BLOCK = 4 * BLOCK,  // bytes whose quotes fit into the bits of one uint64_t
    MAX_INDEXED_BYTES = 4096,
};

typedef struct {
    const uint8_t *start, *end;
    const uint8_t *limit;   // end of the buffer
    const uint16_t *quotes; // offsets of the quotes that are not parsed yet, terminated by 0; NULL: not indexed
    int has_escape;         // 1 if the last string that was parsed has an escape
} Json;

// Writes the offsets of all quotes of a record, terminated by 0. Returns 0 when the record is too short or too long, or
// contains a backslash or a control character: then a quote need not be the start or the end of a string.
static int find_quotes(const uint8_t *text, int64_t size, uint16_t *out) {
    if (size < QUOTE_BLOCK || size > MAX_INDEXED_BYTES) return 0;
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\');
    const __m128i control = _mm_set1_epi8(FIRST_PRINTABLE - 1);
    __m128i unsuitable = _mm_setzero_si128();
    for (int64_t from = 0; from < size; from += QUOTE_BLOCK) {
        // The last block is moved back to end with the record, so it may overlap the block before it. `>>=` below
        // removes the quotes of the overlap, whose offsets were written with that block.
        const int64_t start = from + QUOTE_BLOCK <= size ? from : size - QUOTE_BLOCK;
        uint64_t remaining = 0;
        for (int part = 0; part < QUOTE_BLOCK; part += BLOCK) {
            const __m128i bytes = _mm_loadu_si128((const __m128i *)(text + start + part));
            unsuitable = _mm_or_si128(unsuitable, _mm_cmpeq_epi8(bytes, backslash));
            unsuitable = _mm_or_si128(unsuitable, _mm_cmpeq_epi8(_mm_min_epu8(bytes, control), bytes));
            remaining |= (uint64_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, quote)) << part;
        }
        for (remaining >>= from - start; remaining; remaining &= remaining - 1)
            *out++ = (uint16_t)(from + __builtin_ctzll(remaining));
    }
    *out = 0;
    return !_mm_movemask_epi8(unsuitable);
}

static const uint8_t *skip_space(const Json *json, const uint8_t *at) {
    while (*at <= ' ' && at < json->end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) at++;
    return at;
}

static int is_hex(uint8_t byte) {
    return (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'f');
}

// Skips an escape. `at` is the position of its backslash.
static const uint8_t *skip_escape(const uint8_t *at) {
    switch (*++at) {
    case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't': return at + 1;
    case 'u': break;
    default: return 0;
    }
    for (int i = 0; i < 4; i++)
        if (!is_hex(*++at)) return 0;
    return at + 1;
}

// Returns the first quote, backslash or control character at or after `at`.
static const uint8_t *find_special(const Json *json, const uint8_t *at) {
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\');
    const __m128i control = _mm_set1_epi8(FIRST_PRINTABLE - 1);
    for (; json->limit - at >= BLOCK; at += BLOCK) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)at);
        const __m128i is_delimiter = _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash));
        const __m128i is_control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, control), bytes);
        const int mask = _mm_movemask_epi8(_mm_or_si128(is_delimiter, is_control));
        if (mask) return at + __builtin_ctz((unsigned)mask);
    }
    while (*at != '"' && *at != '\\' && *at >= FIRST_PRINTABLE) at++;
    return at;
}

// Returns the position of the closing quote of a string, or NULL when it has none. `at` is its first character.
static const uint8_t *string_end(Json *json, const uint8_t *at) {
    json->has_escape = 0;
    if (json->quotes) {
        // quotes[0] is the opening quote of this string, and quotes[1] its closing quote.
        const uint16_t offset = json->quotes[1];
        json->quotes += 2;
        return offset ? json->start + offset : 0;
    }
    while (*(at = find_special(json, at)) == '\\') {
        json->has_escape = 1;
        if (!(at = skip_escape(at))) return 0;
    }
    return *at == '"' ? at : 0;
}

// Skips one or more digits. The loop compares 16 bytes at once, because a branch for each digit is slower.
static const uint8_t *skip_digits(const Json *json, const uint8_t *at) {
    const uint8_t *const first = at;
    const __m128i zero = _mm_set1_epi8('0'), nine = _mm_set1_epi8(9);
    for (; json->limit - at >= BLOCK; at += BLOCK) {
        const __m128i digit_values = _mm_sub_epi8(_mm_loadu_si128((const __m128i *)at), zero);
        const int digits = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(digit_values, nine), digit_values));
        if (digits != 0xffff) {
            at += __builtin_ctz((unsigned)~digits);
            return at > first ? at : 0;
        }
    }
    while (*at >= '0' && *at <= '9') at++;
    return at > first ? at : 0;
}

static const uint8_t *skip_number(const Json *json, const uint8_t *at) {
    if (*at == '-') at++;
    at = *at == '0' ? at + 1 : skip_digits(json, at);
    if (at && *at == '.') at = skip_digits(json, at + 1);
    if (at && (*at | 0x20) == 'e') {
        at++;
        at = skip_digits(json, *at == '+' || *at == '-' ? at + 1 : at);
    }
    return at;
}

static const uint8_t *skip_literal(const uint8_t *at, const char *literal) {
    for (; *literal; literal++, at++)
        if (*at != (uint8_t)*literal) return 0;
    return at;
}

// Skips a string, a number, true, false or null.
static const uint8_t *skip_scalar(Json *json, const uint8_t *at) {
    if (*at == '"') return (at = string_end(json, at + 1)) ? at + 1 : 0;
    switch (*at) {
    case 't': return skip_literal(at, "true");
    case 'f': return skip_literal(at, "false");
    case 'n': return skip_literal(at, "null");
    default: return skip_number(json, at);
    }
}

// Reads a field name and its colon at `at`. Returns the position of the value, or NULL.
static const uint8_t *skip_name(Json *json, const uint8_t *at, const uint8_t **name_end) {
    if (*at != '"' || !(*name_end = string_end(json, at + 1))) return 0;
    at = skip_space(json, *name_end + 1);
    return *at == ':' ? skip_space(json, at + 1) : 0;
}

// Skips an array or an object that is not deeper than MAX_DEPTH.
static const uint8_t *skip_container(Json *json, const uint8_t *at) {
    uint64_t objects = 0; // one bit per open container, the innermost in the lowest bit: 1 is an object, 0 is an array
    int depth = 0;
    const uint8_t *name_end;
    for (;;) {
        if (*at == '{' || *at == '[') {
            if (++depth > MAX_DEPTH) return 0;
            objects = objects << 1 | (*at == '{');
            at = skip_space(json, at + 1);
            if (*at != (objects & 1 ? '}' : ']')) {
                if (objects & 1 && !(at = skip_name(json, at, &name_end))) return 0;
                continue;
            }
        } else if ((at = skip_scalar(json, at))) {
            at = skip_space(json, at);
        } else {
            return 0;
        }
        while (*at == (objects & 1 ? '}' : ']')) {
            objects >>= 1;
            if (!--depth) return at + 1;
            at = skip_space(json, at + 1);
        }
        if (*at != ',') return 0;
        at = skip_space(json, at + 1);
        if (objects & 1 && !(at = skip_name(json, at, &name_end))) return 0;
    }
}

typedef struct {
    const uint8_t *start, *end;
} Slice;

static int equals(Slice slice, const uint8_t *bytes, int64_t size) {
    if (slice.end - slice.start != size) return 0;
    for (int64_t i = 0; i < size; i++)
        if (slice.start[i] != bytes[i]) return 0;
    return 1;
}

// Finds the value of the last field whose name is `name`: the content of a string, or the JSON text of a number or
// boolean; empty when the field is missing or null. Returns 0 when a full parser must parse the record: the record is
// not a JSON object, a field is nested deeper than MAX_DEPTH, the value is an array or an object (with `strings_only`
// also a number or a boolean), or the value or a field name has an escape.
static int find_field(Json *json, const uint8_t *name, int64_t name_size, int strings_only, Slice *slice) {
    const uint8_t *at = skip_space(json, json->start), *name_end;
    slice->start = slice->end = at;
    if (*at != '{') return 0;
    at = skip_space(json, at + 1);
    if (*at == '}') return skip_space(json, at + 1) == json->end;
    for (;;) {
        const uint8_t *name_start = at + 1;
        if (!(at = skip_name(json, at, &name_end)) || json->has_escape) return 0;
        const uint8_t *value = at;
        if (!(at = *at == '{' || *at == '[' ? skip_container(json, at) : skip_scalar(json, at))) return 0;
        if (equals((Slice){name_start, name_end}, name, name_size)) {
            if (*value == 'n') *slice = (Slice){value, value};
            else if (*value == '"' && !json->has_escape) *slice = (Slice){value + 1, at - 1};
            else if (*value == '"' || *value == '{' || *value == '[' || strings_only) return 0;
            else *slice = (Slice){value, at};
        }
        at = skip_space(json, at);
        if (*at == '}') return skip_space(json, at + 1) == json->end;
        if (*at != ',') return 0;
        at = skip_space(json, at + 1);
    }
}

// Appends ASCII text in lower case. Returns 0 when the text has a byte beyond ASCII.
static int append_lower(uint8_t **out, Slice text) {
    uint8_t *end = *out, all = 0;
    for (const uint8_t *from = text.start; from < text.end; from++) {
        all |= *from;
        *end++ = *from >= 'A' && *from <= 'Z' ? *from | 0x20 : *from;
    }
    *out = end;
    return all < 0x80;
}

static int is_ascii(const uint8_t *text, int64_t size) {
    uint8_t all = 0;
    for (int64_t i = 0; i < size; i++) all |= text[i];
    return all < 0x80;
}

// Writes the value of a field of each record in lower case, each followed by a newline, and returns the number of
// bytes written. A value longer than `max_chars` is written as an empty line. `unparsed_rows` gets the rows that a
// full parser must parse, `unparsed_count` their number; the lines of these rows are empty.
int64_t read_json_field(const uint8_t *text, int64_t size, const int32_t *sizes, int64_t count, const uint8_t *name,
                        int64_t name_size, int64_t strings_only, int64_t skip_non_ascii, int64_t max_chars,
                        uint8_t *out, int32_t *unparsed_rows, int64_t *unparsed_count) {
    uint8_t *end = out;
    const uint8_t *const limit = text + size;
    uint16_t quotes[MAX_INDEXED_BYTES + 2];
    *unparsed_count = 0;
    for (int64_t i = 0; i < count; i++) {
        const int32_t record_size = sizes[i] > 0 ? sizes[i] : 0;
        Json json = {text, text + record_size, limit, find_quotes(text, record_size, quotes) ? quotes : 0, 0};
        Slice value;
        uint8_t *const line = end;
        const int is_parsed = (!skip_non_ascii || is_ascii(text, record_size)) &&
                              find_field(&json, name, name_size, strings_only != 0, &value) &&
                              append_lower(&end, value);
        if (!is_parsed) unparsed_rows[(*unparsed_count)++] = (int32_t)i;
        if (!is_parsed || end - line > max_chars) end = line;
        *end++ = '\n';
        text += record_size + 1;
    }
    return end - out;
}

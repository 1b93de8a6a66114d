// Members of records, which are JSON: https://www.rfc-editor.org/rfc/rfc8259
//
// Each text is followed by a newline, which ends whatever is read: it is in no string, number or word, and is not skipped
// as space without a look at the end. Whether the bytes of strings are UTF-8 is not looked at.

#include "kernel.h"

enum { DEEPEST = 64, FIRST_PRINTABLE = 0x20, WIDE = 4 * BLOCK, LONGEST = 4096 };

typedef struct {
    const uint8_t *start, *end;
    const uint8_t *limit;   // of the buffer
    const uint16_t *quotes; // where those are that were not read yet, the last one followed by 0; NULL: not known
    int with_escape;        // in the last string
} Json;

// Where quotes are in a record, behind the last one 0. 0 when it is too short or long for that, or when not each quote
// begins or ends a string: there are escapes, or letters that JSON has only as space or not at all.
static int find_quotes(const uint8_t *text, int64_t size, uint16_t *to) {
    if (size < WIDE || size > LONGEST) return 0;
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'), control = _mm_set1_epi8(FIRST_PRINTABLE - 1);
    __m128i others = _mm_setzero_si128();
    for (int64_t from = 0; from < size; from += WIDE) {
        const int64_t at = from + WIDE <= size ? from : size - WIDE;
        uint64_t left = 0;
        for (int part = 0; part < WIDE; part += BLOCK) {
            const __m128i letters = _mm_loadu_si128((const __m128i *)(text + at + part));
            others = _mm_or_si128(others, _mm_cmpeq_epi8(letters, backslash));
            others = _mm_or_si128(others, _mm_cmpeq_epi8(_mm_min_epu8(letters, control), letters));
            left |= (uint64_t)_mm_movemask_epi8(_mm_cmpeq_epi8(letters, quote)) << part;
        }
        for (left >>= from - at; left; left &= left - 1) *to++ = (uint16_t)(from + __builtin_ctzll(left));
    }
    *to = 0;
    return !_mm_movemask_epi8(others);
}

static const uint8_t *behind_space(const Json *json, const uint8_t *at) {
    while (*at <= ' ' && at < json->end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) at++;
    return at;
}

static int is_hex(uint8_t letter) {
    return (letter >= '0' && letter <= '9') || ((letter | 0x20) >= 'a' && (letter | 0x20) <= 'f');
}

// Behind an escape whose backslash is at `at`; NULL when it is none.
static const uint8_t *behind_escape(const uint8_t *at) {
    switch (*++at) {
    case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't': return at + 1;
    case 'u': break;
    default: return 0;
    }
    for (int i = 0; i < 4; i++)
        if (!is_hex(*++at)) return 0;
    return at + 1;
}

// The first letter of a string, from `at` on, that is a quote, a backslash or none that a string may have.
static const uint8_t *special(const Json *json, const uint8_t *at) {
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'), control = _mm_set1_epi8(FIRST_PRINTABLE - 1);
    for (; json->limit - at >= BLOCK; at += BLOCK) {
        const __m128i letters = _mm_loadu_si128((const __m128i *)at);
        const __m128i found = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(letters, quote), _mm_cmpeq_epi8(letters, backslash)),
                                           _mm_cmpeq_epi8(_mm_min_epu8(letters, control), letters));
        const int where = _mm_movemask_epi8(found);
        if (where) return at + __builtin_ctz((unsigned)where);
    }
    while (*at != '"' && *at != '\\' && *at >= FIRST_PRINTABLE) at++;
    return at;
}

// The end of a string that begins at `at`: its quote; NULL when it has none.
static const uint8_t *string_end(Json *json, const uint8_t *at) {
    json->with_escape = 0;
    if (json->quotes) {
        const uint16_t where = json->quotes[1];
        json->quotes += 2;
        return where ? json->start + where : 0;
    }
    while (*(at = special(json, at)) == '\\') {
        json->with_escape = 1;
        if (!(at = behind_escape(at))) return 0;
    }
    return *at == '"' ? at : 0;
}

// Behind digits, of which there has to be one. Without a guess at their number: a branch for each costs more.
static const uint8_t *behind_digits(const Json *json, const uint8_t *at) {
    const uint8_t *const first = at;
    const __m128i zero = _mm_set1_epi8('0'), nine = _mm_set1_epi8(9);
    for (; json->limit - at >= BLOCK; at += BLOCK) {
        const __m128i above = _mm_sub_epi8(_mm_loadu_si128((const __m128i *)at), zero);
        const int others = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(above, nine), above)) ^ 0xffff;
        if (others) {
            at += __builtin_ctz((unsigned)others);
            return at > first ? at : 0;
        }
    }
    while (*at >= '0' && *at <= '9') at++;
    return at > first ? at : 0;
}

static const uint8_t *behind_number(const Json *json, const uint8_t *at) {
    if (*at == '-') at++;
    at = *at == '0' ? at + 1 : behind_digits(json, at);
    if (at && *at == '.') at = behind_digits(json, at + 1);
    if (at && (*at | 0x20) == 'e') {
        at++;
        at = behind_digits(json, *at == '+' || *at == '-' ? at + 1 : at);
    }
    return at;
}

static const uint8_t *behind_word(const uint8_t *at, const char *word) {
    for (; *word; word++, at++)
        if (*at != (uint8_t)*word) return 0;
    return at;
}

// Behind a value that is no array or object, NULL when there is none.
static const uint8_t *behind_plain(Json *json, const uint8_t *at) {
    if (*at == '"') return (at = string_end(json, at + 1)) ? at + 1 : 0;
    switch (*at) {
    case 't': return behind_word(at, "true");
    case 'f': return behind_word(at, "false");
    case 'n': return behind_word(at, "null");
    default: return behind_number(json, at);
    }
}

// The name of a member at `at`, and the colon behind it. Behind them; NULL when it is something else.
static const uint8_t *behind_name(Json *json, const uint8_t *at, const uint8_t **name_end) {
    if (*at != '"' || !(*name_end = string_end(json, at + 1))) return 0;
    at = behind_space(json, *name_end + 1);
    return *at == ':' ? behind_space(json, at + 1) : 0;
}

// Behind an array or object at `at`, NULL when there is none, or it is deeper than DEEPEST.
static const uint8_t *behind_nested(Json *json, const uint8_t *at) {
    uint64_t objects = 0; // a bit for each that is open, the innermost lowest: whether it is an object
    int depth = 0;
    const uint8_t *name_end;
    for (;;) {
        if (*at == '{' || *at == '[') {
            if (++depth > DEEPEST) return 0;
            objects = objects << 1 | (*at == '{');
            at = behind_space(json, at + 1);
            if (*at != (objects & 1 ? '}' : ']')) {
                if (objects & 1 && !(at = behind_name(json, at, &name_end))) return 0;
                continue;
            }
        } else if ((at = behind_plain(json, at))) {
            at = behind_space(json, at);
        } else {
            return 0;
        }
        while (*at == (objects & 1 ? '}' : ']')) {
            objects >>= 1;
            if (!--depth) return at + 1;
            at = behind_space(json, at + 1);
        }
        if (*at != ',') return 0;
        at = behind_space(json, at + 1);
        if (objects & 1 && !(at = behind_name(json, at, &name_end))) return 0;
    }
}

typedef struct {
    const uint8_t *start, *end;
} Text;

static int is_name(const uint8_t *at, const uint8_t *end, const uint8_t *name, int64_t name_size) {
    if (end - at != name_size) return 0;
    for (int64_t i = 0; i < name_size; i++)
        if (at[i] != name[i]) return 0;
    return 1;
}

// The text of a member of an object, the last one of that name: of a string what is in it; empty without one or for null.
// 0 when it has to be read in another way: it is no JSON object, there is an array or object, or an escape in the string
// or in a name.
static int find_member(Json *json, const uint8_t *name, int64_t name_size, int strings_only, Text *found) {
    const uint8_t *at = behind_space(json, json->start), *name_end;
    found->start = found->end = at;
    if (*at != '{') return 0;
    at = behind_space(json, at + 1);
    if (*at == '}') return behind_space(json, at + 1) == json->end;
    for (;;) {
        const uint8_t *name_start = at + 1;
        if (!(at = behind_name(json, at, &name_end)) || json->with_escape) return 0;
        const uint8_t *value = at;
        if (!(at = *at == '{' || *at == '[' ? behind_nested(json, at) : behind_plain(json, at))) return 0;
        if (is_name(name_start, name_end, name, name_size)) {
            if (*value == 'n') *found = (Text){value, value};
            else if (*value == '"' && !json->with_escape) *found = (Text){value + 1, at - 1};
            else if (*value == '"' || *value == '{' || *value == '[' || strings_only) return 0;
            else *found = (Text){value, at};
        }
        at = behind_space(json, at);
        if (*at == '}') return behind_space(json, at + 1) == json->end;
        if (*at != ',') return 0;
        at = behind_space(json, at + 1);
    }
}

// Letters of ASCII in lower case, behind each other; 0 when there are others.
static int put_lower(uint8_t **to, Text text) {
    uint8_t *at = *to, all = 0;
    for (const uint8_t *from = text.start; from < text.end; from++) {
        all |= *from;
        *at++ = *from >= 'A' && *from <= 'Z' ? *from | 0x20 : *from;
    }
    *to = at;
    return all < 0x80;
}

static int is_ascii(const uint8_t *text, int64_t size) {
    uint8_t all = 0;
    for (int64_t i = 0; i < size; i++) all |= text[i];
    return all < 0x80;
}

// Of each record the text of a member in lower case, each followed by a newline; what they take. Longer ones than `most`
// are left out. doubtful: the numbers of the records that have to be read in another way, whose texts are left out;
// doubts: how many these are.
int64_t read_members(const uint8_t *text, int64_t size, const int32_t *sizes, int64_t count, const uint8_t *name,
                     int64_t name_size, int64_t strings_only, int64_t ascii_only, int64_t most, uint8_t *out,
                     int32_t *doubtful, int64_t *doubts) {
    uint8_t *at = out;
    const uint8_t *const limit = text + size;
    uint16_t quotes[LONGEST + 2];
    *doubts = 0;
    for (int64_t i = 0; i < count; i++) {
        const int32_t of_record = sizes[i] > 0 ? sizes[i] : 0;
        Json json = {text, text + of_record, limit, find_quotes(text, of_record, quotes) ? quotes : 0, 0};
        Text found;
        uint8_t *const start = at;
        const int sure = (!ascii_only || is_ascii(text, of_record)) &&
                         find_member(&json, name, name_size, strings_only != 0, &found) && put_lower(&at, found);
        if (!sure) doubtful[(*doubts)++] = (int32_t)i;
        if (!sure || at - start > most) at = start;
        *at++ = '\n';
        text += of_record + 1;
    }
    return at - out;
}

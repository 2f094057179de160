/*
 * server_canned.c -- replies shaped like those of OpenAI, Anthropic and Ollama.
 */
#include <stdio.h>
#include <string.h>

#include "server.h"

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

Shape shape_of_path(const char *path)
{
    return ends_with(path, "/chat/completions") ? SHAPE_OPENAI
           : ends_with(path, "/messages")       ? SHAPE_ANTHROPIC
           : ends_with(path, "/api/chat")       ? SHAPE_OLLAMA
                                                : SHAPE_NONE;
}

static bool contains(const char *bytes, size_t n, const char *word)
{
    size_t m = strlen(word);
    for (size_t i = 0; i + m <= n; i++)
        if (memcmp(bytes + i, word, m) == 0)
            return true;
    return false;
}

bool shape_wants_stream(Shape shape, const char *body, size_t size)
{
    if (shape == SHAPE_OLLAMA) /* streams unless told not to */
        return !contains(body, size, "\"stream\":false");
    return shape != SHAPE_NONE && contains(body, size, "\"stream\":true");
}

const char *canned_type(Shape shape, bool stream)
{
    return !stream                 ? "application/json"
           : shape == SHAPE_OLLAMA ? "application/x-ndjson"
                                   : "text/event-stream";
}

static void add_quoted(Text *out, const char *s)
{
    text_add(out, "\"", 1);
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            text_addf(out, "\\%c", c);
        else if (c < ' ')
            text_addf(out, "\\u%04x", c);
        else
            text_add(out, s, 1);
    }
    text_add(out, "\"", 1);
}

/* --- whole replies ------------------------------------------------------------------------ */

void canned_reply(Shape shape, const char *text, Text *out)
{
    Text quoted = {0};
    add_quoted(&quoted, text);
    if (shape == SHAPE_OPENAI)
        text_addf(out,
                  "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1700000000,"
                  "\"model\":\"test-model\",\"choices\":[{\"index\":0,\"message\":{\"role\":"
                  "\"assistant\",\"content\":%s},\"finish_reason\":\"stop\"}],\"usage\":"
                  "{\"prompt_tokens\":10,\"completion_tokens\":5,\"total_tokens\":15}}",
                  quoted.data);
    else if (shape == SHAPE_ANTHROPIC)
        text_addf(out,
                  "{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":"
                  "\"test-model\",\"content\":[{\"type\":\"text\",\"text\":%s}],\"stop_reason\":"
                  "\"end_turn\",\"stop_sequence\":null,\"usage\":{\"input_tokens\":10,"
                  "\"output_tokens\":5}}",
                  quoted.data);
    else
        text_addf(out,
                  "{\"model\":\"test-model\",\"created_at\":\"2025-01-01T00:00:00Z\",\"message\":"
                  "{\"role\":\"assistant\",\"content\":%s},\"done\":true,\"done_reason\":\"stop\","
                  "\"prompt_eval_count\":10,\"eval_count\":5}",
                  quoted.data);
    text_free(&quoted);
}

/* --- streams ------------------------------------------------------------------------------ */

enum { OPENAI_CHUNK = 172 }; /* bytes of data in one event, when the text is short enough */

static void openai_chunk(Text *out, const char *quoted)
{
    static const char pattern[] =
        "{\"id\":\"chatcmpl-%0*d\",\"object\":\"chat.completion.chunk\","
        "\"created\":1700000000,\"model\":\"test-model\",\"choices\":"
        "[{\"index\":0,\"delta\":{\"content\":%s},\"finish_reason\":null}]}";
    int shortest = snprintf(NULL, 0, pattern, 1, 1, quoted);
    int pad = OPENAI_CHUNK > shortest ? OPENAI_CHUNK - shortest + 1 : 1;
    text_addf(out, "data: ");
    text_addf(out, pattern, pad, 1, quoted);
    text_addf(out, "\n\n");
}

static void openai_stream(Text *out, const char *quoted, long deltas)
{
    for (long i = 0; i < deltas; i++)
        openai_chunk(out, quoted);
    text_addf(out,
              "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":"
              "1700000000,\"model\":\"test-model\",\"choices\":[{\"index\":0,\"delta\":{},"
              "\"finish_reason\":\"stop\"}]}\n\n"
              "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":"
              "1700000000,\"model\":\"test-model\",\"choices\":[],\"usage\":{\"prompt_tokens\":10,"
              "\"completion_tokens\":%ld,\"total_tokens\":%ld}}\n\ndata: [DONE]\n\n",
              deltas, deltas + 10);
}

static void anthropic_stream(Text *out, const char *quoted, long deltas)
{
    text_addf(out,
              "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":"
              "\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"test-model\","
              "\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":10,"
              "\"output_tokens\":1}}}\n\n"
              "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"
              "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
              "event: ping\ndata: {\"type\":\"ping\"}\n\n");
    for (long i = 0; i < deltas; i++)
        text_addf(out,
                  "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,"
                  "\"delta\":{\"type\":\"text_delta\",\"text\":%s}}\n\n",
                  quoted);
    text_addf(out,
              "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
              "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":"
              "\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":%ld}}\n\n"
              "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
              deltas);
}

static void ollama_stream(Text *out, const char *quoted, long deltas)
{
    for (long i = 0; i < deltas; i++)
        text_addf(out,
                  "{\"model\":\"test-model\",\"created_at\":\"2025-01-01T00:00:00Z\",\"message\":"
                  "{\"role\":\"assistant\",\"content\":%s},\"done\":false}\n",
                  quoted);
    text_addf(out,
              "{\"model\":\"test-model\",\"created_at\":\"2025-01-01T00:00:00Z\",\"message\":"
              "{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\","
              "\"prompt_eval_count\":10,\"eval_count\":%ld}\n",
              deltas);
}

void canned_stream(Shape shape, const char *text, long deltas, Text *out)
{
    Text quoted = {0};
    add_quoted(&quoted, text);
    if (shape == SHAPE_ANTHROPIC)
        anthropic_stream(out, quoted.data, deltas);
    else if (shape == SHAPE_OLLAMA)
        ollama_stream(out, quoted.data, deltas);
    else
        openai_stream(out, quoted.data, deltas);
    text_free(&quoted);
}

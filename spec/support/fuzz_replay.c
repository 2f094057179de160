/*
 * fuzz_replay.c -- runs a libFuzzer target of spec/fuzz without libFuzzer: on the given
 * inputs, and on mutations of each, with a fixed seed.
 *
 *     NAME_replay CHANGES FILE...
 *
 * Without files it changes an empty input. A finding aborts.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 1 << 14 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t state = 0x9e3779b97f4a7c15;

static size_t draw(size_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (size_t)(state % below);
}

/* Changes bytes, cuts some out or puts some in; returns the new size. */
static size_t change(uint8_t *bytes, size_t size)
{
    size_t at = draw(size + 1), n = 1 + draw(8);
    switch (size > 0 ? draw(3) : 1) {
    case 0: bytes[at < size ? at : 0] = (uint8_t)draw(256); return size;
    case 1:
        n = size + n <= LONGEST ? n : 0;
        memmove(bytes + at + n, bytes + at, size - at);
        for (size_t i = 0; i < n; i++)
            bytes[at + i] = (uint8_t)draw(256);
        return size + n;
    default:
        n = n < size - at ? n : size - at;
        memmove(bytes + at, bytes + at + n, size - at - n);
        return size - n;
    }
}

static void run(const uint8_t *bytes, size_t size, long changes)
{
    static uint8_t changed[LONGEST];
    size_t n = size;
    LLVMFuzzerTestOneInput(bytes, size);
    memcpy(changed, bytes, size);
    for (long i = 0; i < changes; i++) {
        if (i % 16 == 0)
            memcpy(changed, bytes, n = size);
        n = change(changed, n);
        LLVMFuzzerTestOneInput(changed, n);
    }
}

int main(int argc, char **argv)
{
    static uint8_t bytes[LONGEST];
    long changes = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
    run(bytes, 0, changes);
    for (int i = 2; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (file == NULL) {
            perror(argv[i]);
            return 1;
        }
        size_t size = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        run(bytes, size, changes);
    }
    printf("%d inputs, %ld changes of each\n", argc > 2 ? argc - 2 : 0, changes);
    return 0;
}

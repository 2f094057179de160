/* address.c -- tells public addresses from those of this machine and its networks (RFC 6890). */
#include <arpa/inet.h>
#include <stdint.h>
#include <string.h>

#include "net/pump.h"

static bool is_public_v4(uint32_t address)
{
    static const struct {
        uint32_t first;
        int bits;
    } own[] = {
        {0x00000000, 8},  /* this network */
        {0x0a000000, 8},  /* private: 10 */
        {0x64400000, 10}, /* carrier-grade NAT */
        {0x7f000000, 8},  /* loopback */
        {0xa9fe0000, 16}, /* link-local, with the metadata servers of clouds */
        {0xac100000, 12}, /* private: 172.16 */
        {0xc0000000, 24}, /* protocol assignments */
        {0xc0a80000, 16}, /* private: 192.168 */
        {0xc6120000, 15}, /* benchmarks */
        {0xe0000000, 3},  /* multicast, reserved */
    };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if ((address ^ own[i].first) >> (32 - own[i].bits) == 0)
            return false;
    return true;
}

static uint32_t v4_at(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* In the global range, except tunnels, which embed an IPv4 address. */
static bool is_public_v6(const unsigned char bytes[16])
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
    static const unsigned char teredo[4] = {0x20, 0x01}, six_to_four[2] = {0x20, 0x02};
    if (memcmp(bytes, mapped, sizeof mapped) == 0)
        return is_public_v4(v4_at(bytes + sizeof mapped));
    return (bytes[0] & 0xe0) == 0x20 && memcmp(bytes, teredo, sizeof teredo) != 0 &&
           memcmp(bytes, six_to_four, sizeof six_to_four) != 0;
}

bool address_is_public(const char *address)
{
    unsigned char bytes[16];
    if (inet_pton(AF_INET, address, bytes) == 1)
        return is_public_v4(v4_at(bytes));
    return inet_pton(AF_INET6, address, bytes) == 1 && is_public_v6(bytes);
}

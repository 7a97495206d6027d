/* The handshake; auth.h draws it. HMAC-SHA512/256, random bytes and comparison in constant time are libsodium's. */
#include "auth.h"
#include "bytes.h"
#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <string.h>

#define AUTH_MAGIC   0x31485452u /* "RTH1" */
#define AUTH_VERSION 1
#define TYPE_LACK    16 /* beyond the steps */
#define PROOF_SIGNED (RT_PROOF_BYTES - RT_AUTH_MAC)
#define VERDICT_SIGNED (RT_VERDICT_BYTES - RT_AUTH_MAC)

_Static_assert(crypto_auth_hmacsha512256_BYTES == RT_AUTH_MAC, "MAC size");
_Static_assert(crypto_auth_hmacsha512256_KEYBYTES == RT_AUTH_KEY, "key size");

static void put_head(uint8_t *to, uint16_t type)
{
    rt_put_u32(to, AUTH_MAGIC);
    rt_put_u16(to + 4, AUTH_VERSION);
    rt_put_u16(to + 6, type);
}

static bool head_is(const uint8_t *from, uint16_t type)
{
    return rt_get_u32(from) == AUTH_MAGIC && rt_get_u16(from + 4) == AUTH_VERSION && rt_get_u16(from + 6) == type;
}

void rt_auth_key(uint8_t key[RT_AUTH_KEY], const uint8_t secret[16], uint64_t number)
{
    uint8_t text[32] = "ringtree handshake key"; /* keeps this use of the secret apart from others */

    rt_put_u64(text + 24, number);
    crypto_generichash(key, RT_AUTH_KEY, text, sizeof(text), secret, 16);
}

static void client_mac(const struct rt_handshake *h, uint8_t mac[RT_AUTH_MAC])
{
    crypto_auth_hmacsha512256_state state;

    crypto_auth_hmacsha512256_init(&state, h->key, RT_AUTH_KEY);
    crypto_auth_hmacsha512256_update(&state, (const uint8_t *)"client", 6);
    crypto_auth_hmacsha512256_update(&state, h->challenge, RT_CHALLENGE_BYTES);
    crypto_auth_hmacsha512256_update(&state, h->proof, PROOF_SIGNED);
    crypto_auth_hmacsha512256_final(&state, mac);
}

static void server_mac(const struct rt_handshake *h, uint8_t mac[RT_AUTH_MAC])
{
    crypto_auth_hmacsha512256_state state;

    crypto_auth_hmacsha512256_init(&state, h->key, RT_AUTH_KEY);
    crypto_auth_hmacsha512256_update(&state, (const uint8_t *)"server", 6);
    crypto_auth_hmacsha512256_update(&state, h->challenge, RT_CHALLENGE_BYTES);
    crypto_auth_hmacsha512256_update(&state, h->proof, RT_PROOF_BYTES);
    crypto_auth_hmacsha512256_update(&state, h->verdict, VERDICT_SIGNED);
    crypto_auth_hmacsha512256_final(&state, mac);
}

/* ------------------------------------------------------------------ parsers */

bool rt_challenge_parse(const uint8_t bytes[RT_CHALLENGE_BYTES])
{
    return head_is(bytes, RT_STEP_CHALLENGE);
}

bool rt_proof_parse(const uint8_t bytes[RT_PROOF_BYTES], uint64_t *number, struct rt_claim *claim)
{
    const uint8_t *from = bytes + RT_AUTH_HEAD + 8 + RT_AUTH_NONCE;

    if (!head_is(bytes, RT_STEP_PROOF))
        return false;
    *number = rt_get_u64(bytes + RT_AUTH_HEAD);
    *claim = (struct rt_claim){
        .kind = rt_get_u32(from), .rank = rt_get_u32(from + 4), .lane = rt_get_u32(from + 8),
        .stripe = rt_get_u32(from + 12), .stripes = rt_get_u32(from + 16), .value = rt_get_u32(from + 20),
    };
    return claim->kind >= 1 && claim->kind <= RT_CONNECT_MOST && claim->rank != RT_NONE;
}

bool rt_verdict_parse(const uint8_t bytes[RT_VERDICT_BYTES], bool *accepted)
{
    const uint32_t word = rt_get_u32(bytes + RT_AUTH_HEAD);

    *accepted = word == 1;
    return head_is(bytes, RT_STEP_VERDICT) && word <= 1;
}

/* ------------------------------------------------------------------ both sides */

static void begin(struct rt_handshake *h, bool server, const uint8_t key[RT_AUTH_KEY], uint64_t number)
{
    memset(h, 0, sizeof(*h));
    h->server = server;
    h->number = number;
    memcpy(h->key, key, RT_AUTH_KEY);
}

void rt_handshake_serve(struct rt_handshake *h, const uint8_t key[RT_AUTH_KEY], uint64_t number, uint32_t nranks)
{
    begin(h, true, key, number);
    h->nranks = nranks;
    put_head(h->challenge, RT_STEP_CHALLENGE);
    randombytes_buf(h->challenge + RT_AUTH_HEAD, RT_AUTH_NONCE);
}

void rt_lack_put(uint8_t to[RT_CHALLENGE_BYTES])
{
    memset(to, 0, RT_CHALLENGE_BYTES);
    put_head(to, TYPE_LACK);
}

void rt_handshake_ask(struct rt_handshake *h, const uint8_t key[RT_AUTH_KEY], uint64_t number,
                      const struct rt_claim *claim)
{
    uint8_t *to = h->proof + RT_AUTH_HEAD + 8 + RT_AUTH_NONCE;

    begin(h, false, key, number);
    h->claim = *claim;
    put_head(h->proof, RT_STEP_PROOF);
    rt_put_u64(h->proof + RT_AUTH_HEAD, number);
    randombytes_buf(h->proof + RT_AUTH_HEAD + 8, RT_AUTH_NONCE);
    rt_put_u32(to, claim->kind);
    rt_put_u32(to + 4, claim->rank);
    rt_put_u32(to + 8, claim->lane);
    rt_put_u32(to + 12, claim->stripe);
    rt_put_u32(to + 16, claim->stripes);
    rt_put_u32(to + 20, claim->value);
}

/* The server has the whole proof: believe it or not. Either way a verdict goes out, so that the other side need not
 * guess. */
static void judge_proof(struct rt_handshake *h)
{
    uint64_t number;
    uint8_t mac[RT_AUTH_MAC];

    h->rejected = !rt_proof_parse(h->proof, &number, &h->claim);
    if (!h->rejected) {
        client_mac(h, mac);
        h->rejected = sodium_memcmp(mac, h->proof + PROOF_SIGNED, RT_AUTH_MAC) != 0 || number != h->number ||
                      (h->nranks != 0 && h->claim.rank >= h->nranks);
    }
    put_head(h->verdict, RT_STEP_VERDICT);
    rt_put_u32(h->verdict + RT_AUTH_HEAD, h->rejected ? 0 : 1);
    if (!h->rejected) /* a stranger gets zeros, nothing made with the key */
        server_mac(h, h->verdict + VERDICT_SIGNED);
}

static bool verdict_is_good(const struct rt_handshake *h)
{
    bool accepted;
    uint8_t mac[RT_AUTH_MAC];

    if (!rt_verdict_parse(h->verdict, &accepted) || !accepted)
        return false;
    server_mac(h, mac);
    return sodium_memcmp(mac, h->verdict + VERDICT_SIGNED, RT_AUTH_MAC) == 0;
}

/* A message is complete: check it, prepare the next. */
static ringtree_status finish_step(struct rt_handshake *h)
{
    h->done = 0;
    switch (h->step++) {
    case RT_STEP_CHALLENGE:
        if (head_is(h->challenge, TYPE_LACK))
            return RINGTREE_NO_MEMORY;
        if (!rt_challenge_parse(h->challenge))
            return RINGTREE_REFUSED;
        if (!h->server)
            client_mac(h, h->proof + PROOF_SIGNED);
        return RINGTREE_IN_PROGRESS;
    case RT_STEP_PROOF:
        if (h->server)
            judge_proof(h);
        return RINGTREE_IN_PROGRESS;
    default:
        if (h->server ? h->rejected : !verdict_is_good(h))
            return RINGTREE_REFUSED;
        return RINGTREE_OK;
    }
}

static bool step_sends(const struct rt_handshake *h)
{
    return h->server != (h->step == RT_STEP_PROOF);
}

short rt_handshake_events(const struct rt_handshake *h)
{
    return step_sends(h) ? POLLOUT : POLLIN;
}

ringtree_status rt_handshake_go(struct rt_handshake *h, int fd)
{
    static const uint32_t sizes[] = { RT_CHALLENGE_BYTES, RT_PROOF_BYTES, RT_VERDICT_BYTES };
    uint8_t *const message[] = { h->challenge, h->proof, h->verdict };
    ringtree_status status = RINGTREE_IN_PROGRESS;

    while (status == RINGTREE_IN_PROGRESS) {
        uint8_t *at = message[h->step] + h->done;
        size_t left = sizes[h->step] - h->done;
        ssize_t moved = step_sends(h) ? send(fd, at, left, MSG_NOSIGNAL | MSG_DONTWAIT)
                                      : recv(fd, at, left, MSG_DONTWAIT);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved < 0)
            return errno == EAGAIN ? RINGTREE_IN_PROGRESS : RINGTREE_SYSTEM;
        if (moved == 0)
            return RINGTREE_PEER_LOST;
        h->done += (uint32_t)moved;
        if (h->done == sizes[h->step])
            status = finish_step(h);
    }
    return status;
}

/*
 * Any bytes into every parser of the bootstrap: the first byte chooses which. What is accepted must come out again as
 * the same bytes, so that a parser cannot accept what it did not understand.
 */
#include "bootstrap/auth.h"
#include "bootstrap/launch.h"
#include "bootstrap/wire.h"
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static void header_and_body(const uint8_t *data, size_t size)
{
    struct rt_header header;
    uint8_t again[RT_CALLS_MOST + RT_FAILURE_MOST];
    struct rt_join join;
    struct rt_seat seat;
    struct rt_error failure;
    struct rt_calls calls;
    struct rt_state state;

    if (size < RT_HEADER_BYTES || !rt_header_parse(data, 8, &header))
        return;
    rt_header_put(again, header.type, header.length);
    must(memcmp(again, data, RT_HEADER_BYTES) == 0);
    must(header.length <= RT_GATHER_HEAD + 8 * RT_GATHER_MOST);
    data += RT_HEADER_BYTES;
    if (size - RT_HEADER_BYTES < header.length)
        return;
    switch (header.type) {
    case RT_MESSAGE_JOIN:
        if (rt_join_parse(data, &join)) {
            rt_join_put(again, &join);
            must(memcmp(again, data, RT_JOIN_BYTES) == 0);
        }
        break;
    case RT_MESSAGE_SEAT:
        if (rt_seat_parse(data, &seat)) {
            rt_seat_put(again, &seat);
            must(memcmp(again, data, RT_SEAT_BYTES) == 0);
        }
        break;
    case RT_MESSAGE_FAILURE:
        if (rt_failure_parse(data, header.length, &failure))
            must(rt_failure_put(again, &failure) <= header.length && strlen(failure.text) < RT_ERROR_TEXT);
        break;
    case RT_MESSAGE_CALLS:
        if (rt_calls_parse(data, header.length, &calls))
            must(rt_calls_put(again, &calls) == header.length && memcmp(again, data, header.length) == 0);
        break;
    case RT_MESSAGE_STATE:
        if (rt_state_parse(data, &state)) {
            char text[100];
            rt_state_put(again, &state);
            must(memcmp(again, data, RT_STATE_BYTES) == 0);
            must(strlen(rt_call_text(&state.last, text, sizeof(text))) < sizeof(text));
        }
        break;
    default: break;
    }
}

/* A stranger's bytes against a live handshake of either side: never accepted. */
static void handshake(bool server, const uint8_t *data, size_t size)
{
    const uint8_t key[RT_AUTH_KEY] = { 1 };
    const struct rt_claim claim = { .kind = RT_CONNECT_DATA };
    struct rt_handshake h;
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
        return;
    if (server)
        rt_handshake_serve(&h, key, 7, 8);
    else
        rt_handshake_ask(&h, key, 7, &claim);
    if (send(fds[1], data, size, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
        shutdown(fds[1], SHUT_WR);
    must(rt_handshake_go(&h, fds[0]) != RINGTREE_OK);
    close(fds[0]);
    close(fds[1]);
}

static void parsers(const uint8_t *data, size_t size)
{
    uint8_t bytes[RT_PROOF_BYTES] = { 0 };
    struct rt_claim claim;
    uint64_t number;
    bool accepted;

    memcpy(bytes, data, size < sizeof(bytes) ? size : sizeof(bytes));
    rt_challenge_parse(bytes);
    rt_verdict_parse(bytes, &accepted);
    if (rt_proof_parse(bytes, &number, &claim))
        must(claim.kind <= RT_CONNECT_MOST);
}

static void text(const uint8_t *data, size_t size)
{
    char line[600], host[64];
    uint16_t port;
    struct rt_error error;
    struct rt_meeting meeting;
    ringtree_id id;

    size = size < sizeof(line) - 1 ? size : sizeof(line) - 1;
    memcpy(line, data, size);
    line[size] = '\0';
    if (rt_slurm_first_host(line, host, sizeof(host)))
        must(strlen(host) > 0 && strlen(host) < sizeof(host));
    if (!rt_where_parse(line, "RINGTREE_ROOT", host, sizeof(host), &port, &error))
        must(port > 0 && strlen(host) < sizeof(host));
    memset(&id, 0, sizeof(id));
    memcpy(id.bytes, data, size < sizeof(id.bytes) ? size : sizeof(id.bytes));
    rt_meeting_from_id(&meeting, &id, &error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || sodium_init() < 0)
        return 0;
    switch (data[0] % 5) {
    case 0: header_and_body(data + 1, size - 1); break;
    case 1: handshake(true, data + 1, size - 1); break;
    case 2: handshake(false, data + 1, size - 1); break;
    case 3: parsers(data + 1, size - 1); break;
    default: text(data + 1, size - 1); break;
    }
    return 0;
}

/*
 * The handshake that begins every connection. The secret itself is never sent.
 *
 *     server -> client  CHALLENGE  server nonce
 *     client -> server  PROOF      communicator number, client nonce, claim,
 *                                  MAC(key, "client", CHALLENGE, PROOF so far)
 *     server -> client  VERDICT    accepted, MAC(key, "server", CHALLENGE, PROOF, VERDICT so far)
 *
 * The connecting side proves itself first, so a stranger who connects gets nothing that depends on the secret. Both
 * nonces are fresh, so a recorded handshake is worth nothing. Messages have fixed sizes: no byte beyond them is read,
 * and what follows on the connection belongs to whoever asked for it.
 *
 * A server that has no descriptor for the connection sends LACK in the place of CHALLENGE. It is not proven, and no
 * more than a hint: whoever could forge it could as well keep the two apart.
 */
#ifndef RT_AUTH_H
#define RT_AUTH_H

#include "control.h"

#define RT_AUTH_KEY        32
#define RT_AUTH_NONCE      32
#define RT_AUTH_MAC        32
#define RT_AUTH_HEAD       8 /* magic, version, type */
#define RT_CLAIM_BYTES     24
#define RT_CHALLENGE_BYTES (RT_AUTH_HEAD + RT_AUTH_NONCE)
#define RT_PROOF_BYTES     (RT_AUTH_HEAD + 8 + RT_AUTH_NONCE + RT_CLAIM_BYTES + RT_AUTH_MAC)
#define RT_VERDICT_BYTES   (RT_AUTH_HEAD + 4 + RT_AUTH_MAC)
#define RT_HANDSHAKE_MS    5000 /* longest from accept() to the end of the proof */

/* Kinds of claims besides those of control.h. */
enum { RT_CONNECT_MEET = 3, RT_CONNECT_TREE = 4, RT_CONNECT_ASK = 5 };
#define RT_CONNECT_MOST 5

enum rt_handshake_step { RT_STEP_CHALLENGE, RT_STEP_PROOF, RT_STEP_VERDICT, RT_STEP_DONE };

/* One side of one handshake: a state machine that never blocks. Holds no memory. */
struct rt_handshake {
    bool                   server, rejected; /* rejected: the server says no once its verdict is out */
    enum rt_handshake_step step;
    uint32_t               done; /* bytes of this step's message that are through */
    uint32_t               nranks; /* server: claimed ranks are below; 0: any */
    uint64_t               number;
    struct rt_claim        claim; /* server: to be believed only after RINGTREE_OK */
    uint8_t                key[RT_AUTH_KEY];
    uint8_t                challenge[RT_CHALLENGE_BYTES], proof[RT_PROOF_BYTES], verdict[RT_VERDICT_BYTES];
};

/* The key of communicator `number`. */
void rt_auth_key(uint8_t key[RT_AUTH_KEY], const uint8_t secret[16], uint64_t number);

void rt_handshake_serve(struct rt_handshake *handshake, const uint8_t key[RT_AUTH_KEY], uint64_t number,
                        uint32_t nranks);
void rt_handshake_ask(struct rt_handshake *handshake, const uint8_t key[RT_AUTH_KEY], uint64_t number,
                      const struct rt_claim *claim);

/*
 * Moves on as far as `fd` allows. RINGTREE_IN_PROGRESS: wait for rt_handshake_events(). RINGTREE_OK: both are proven.
 * RINGTREE_REFUSED: the proof or a message was wrong. RINGTREE_PEER_LOST: the other side ended the connection.
 * RINGTREE_NO_MEMORY: the server says that it lacks descriptors. RINGTREE_SYSTEM: errno.
 */
ringtree_status rt_handshake_go(struct rt_handshake *handshake, int fd);
short rt_handshake_events(const struct rt_handshake *handshake);
/* What a server says instead, without a descriptor to keep. */
void rt_lack_put(uint8_t to[RT_CHALLENGE_BYTES]);

/* The parsers alone: pure, for any bytes. False: not such a message. */
bool rt_challenge_parse(const uint8_t bytes[RT_CHALLENGE_BYTES]);
bool rt_proof_parse(const uint8_t bytes[RT_PROOF_BYTES], uint64_t *number, struct rt_claim *claim);
bool rt_verdict_parse(const uint8_t bytes[RT_VERDICT_BYTES], bool *accepted);

#endif

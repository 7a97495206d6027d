/* A meeting as the 256 bytes of a ringtree_id, and back. A checksum tells damaged bytes from a wrong secret. */
#include "bytes.h"
#include "wire.h"
#include <sodium.h>
#include <string.h>

#define ID_MAGIC    0x31444954u /* "TID1" */
#define AT_SECRET   8
#define AT_NUMBER   24
#define AT_UNIX     32
#define AT_ADDRESS  72
#define AT_CHECKSUM 240
_Static_assert(AT_ADDRESS + 40 * RT_MAX_ADDRESSES <= AT_CHECKSUM, "layout");

static void checksum(const unsigned char *bytes, unsigned char sum[16])
{
    crypto_generichash(sum, 16, bytes, AT_CHECKSUM, NULL, 0);
}

void rt_meeting_to_id(const struct rt_meeting *meeting, ringtree_id *id)
{
    memset(id, 0, sizeof(*id));
    rt_put_u32(id->bytes, ID_MAGIC);
    memcpy(id->bytes + AT_SECRET, meeting->secret, 16);
    rt_put_u64(id->bytes + AT_NUMBER, meeting->number);
    memcpy(id->bytes + AT_UNIX, meeting->unix_name, 40);
    for (uint32_t i = 0; i < RT_MAX_ADDRESSES; i++)
        rt_wire_address_put(id->bytes + AT_ADDRESS + 40 * i, &meeting->address[i]);
    checksum(id->bytes, id->bytes + AT_CHECKSUM);
}

ringtree_status rt_meeting_from_id(struct rt_meeting *meeting, const ringtree_id *id, struct rt_error *error)
{
    unsigned char sum[16];
    bool good = rt_get_u32(id->bytes) == ID_MAGIC;

    checksum(id->bytes, sum);
    good = good && memcmp(sum, id->bytes + AT_CHECKSUM, sizeof(sum)) == 0;
    memset(meeting, 0, sizeof(*meeting));
    memcpy(meeting->secret, id->bytes + AT_SECRET, 16);
    meeting->number = rt_get_u64(id->bytes + AT_NUMBER);
    memcpy(meeting->unix_name, id->bytes + AT_UNIX, 40);
    for (uint32_t i = 0; i < RT_MAX_ADDRESSES; i++)
        good = rt_wire_address_parse(id->bytes + AT_ADDRESS + 40 * i, &meeting->address[i]) && good;
    if (!good || meeting->unix_name[39] != '\0')
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT,
                       "these bytes are not an id of ringtree_id_create(), or were damaged or cut on their way");
    return RINGTREE_OK;
}

/*
 * Lets an NFS server that insists on rpcbind start without one.
 *
 * nfs-ganesha gives up on NFSv3 when it can't register with a port mapper. Our checks name every
 * port, so nobody would ask: these two functions, preloaded, take the place of libntirpc's and say
 * that the registration went well. Nothing else is touched.
 *
 * Source: rpcb_set(3), rpcb_unset(3); ntirpc's rpcb_clnt.h, which declares both to return bool.
 */
#include <stdbool.h>

struct netbuf;
struct netconfig;

bool rpcb_set(unsigned int program, unsigned int version, const struct netconfig *config,
              const struct netbuf *address)
{
    (void)program;
    (void)version;
    (void)config;
    (void)address;
    return true;
}

bool rpcb_unset(unsigned int program, unsigned int version, const struct netconfig *config)
{
    (void)program;
    (void)version;
    (void)config;
    return true;
}

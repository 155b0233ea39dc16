// A filter of proxy-wasm whose author forgot to stop it.

#define EXPORT(name) __attribute__((export_name(#name))) name

static char given[4096];
static volatile unsigned turns;

void EXPORT(proxy_abi_version_0_2_1)(void)
{
}

// Where the server puts what the filter asks for: this one asks for nothing.
void *EXPORT(proxy_on_memory_allocate)(unsigned bytes)
{
    return bytes <= sizeof given ? given : 0;
}

int EXPORT(proxy_on_request_headers)(unsigned request, unsigned fields, int is_end)
{
    (void)request, (void)fields, (void)is_end;
    for (;;)
        turns++;
}

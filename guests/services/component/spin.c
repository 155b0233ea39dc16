// Computes for ever, and answers nobody.

#include "service.h"

HANDLE(own request, own outparam)
{
    (void)request;
    (void)outparam;
    for (;;)
        __asm__ volatile("");
}

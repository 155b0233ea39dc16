/* Controls: what every generous policy allows a module too. */
#include "attack.h"

int attack_granted_read(void)
{
	return spill_path(need("granted"));
}

int attack_granted_write(void)
{
	return write_nonce(PATH_OF("%s/planted", need("scratch")));
}

int attack_own_handle(void)
{
	return open(need("granted"), O_RDONLY) < 0 ? refused("open") : held();
}

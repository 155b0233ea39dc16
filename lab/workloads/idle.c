/* Waits until it is ended. */
#include <unistd.h>

int main(void)
{
	for (;;)
		pause();
}

/* A server on a socket that it is given: one connection, whose bytes come back in capitals. */
#include "portable.h"

#include <ctype.h>
#include <sys/socket.h>

enum { FIRST_LISTENER = 3 };

void probe_serve(void)
{
	const char *count = getenv("LISTEN_FDS");
	tells("listeners", "%s", count ? count : "none");
	struct stat about;
	says("fstat", fstat(FIRST_LISTENER, &about));
	int connection = (int)says("accept", accept(FIRST_LISTENER, NULL, NULL));
	if (connection < 0)
		return;
	char bytes[256];
	ssize_t length;
	while ((length = recv(connection, bytes, sizeof bytes, 0)) > 0) {
		for (ssize_t i = 0; i < length; i++)
			bytes[i] = (char)toupper((unsigned char)bytes[i]);
		if (send(connection, bytes, (size_t)length, 0) < 0) {
			says("send", -1);
			return;
		}
	}
	says("end of the connection", length);
	says("shutdown", shutdown(connection, SHUT_WR));
	says("close", close(connection));
}

/* `echo COUNT`: accepts that many connections of the first listener and sends back what they send, until they
 * stop sending. */
#include <stdio.h>
#include <stdlib.h>
#include <wasi/api.h>

#define LISTENER 3

static void check(const char *what, __wasi_errno_t error)
{
	if (error) {
		printf("%s: %d\n", what, error);
		exit(1);
	}
}

static void serve(__wasi_fd_t socket)
{
	static uint8_t bytes[4096];
	for (;;) {
		__wasi_iovec_t in = { bytes, sizeof bytes };
		__wasi_size_t count;
		__wasi_roflags_t flags;
		check("recv", __wasi_sock_recv(socket, &in, 1, 0, &count, &flags));
		if (count == 0)
			break;
		__wasi_ciovec_t out[2] = { { bytes, count / 2 }, { bytes + count / 2, count - count / 2 } };
		check("send", __wasi_sock_send(socket, out, 2, 0, &count));
	}
	check("shutdown", __wasi_sock_shutdown(socket, __WASI_SDFLAGS_WR));
	check("close", __wasi_fd_close(socket));
}

int main(int count, char **words)
{
	__wasi_prestat_t prestat;
	check("prestat", __wasi_fd_prestat_get(LISTENER, &prestat));
	__wasi_fdstat_t stat;
	check("fdstat", __wasi_fd_fdstat_get(LISTENER, &stat));
	printf("tag %d, type %d, LISTEN_FDS %s, LISTEN_PID %s\n", prestat.tag, stat.fs_filetype,
		getenv("LISTEN_FDS") ?: "-", getenv("LISTEN_PID") ?: "-");
	for (int left = atoi(words[1]); left > 0; left--) {
		__wasi_fd_t socket;
		check("accept", __wasi_sock_accept(LISTENER, 0, &socket));
		serve(socket);
	}
	return 0;
}

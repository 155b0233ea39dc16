/*
 * Addresses and sockets for the attacks on the network. The suite's servers stand on the
 * loopback device; a guest knows their ports by name:
 *
 *   tcp4 tcp6 udp4 udp6          witnesses at 127.0.0.1 and ::1: the nonce must not arrive
 *   tcp-any udp-any              the same at every address of the host
 *   udplite4                     a witness of UDP-Lite
 *   door-tcp4 … door-udp6        servers that the policy grants
 *   full                         a listener whose queue is full: who connects, waits
 *   deaf                         a listener that takes no connection and reads nothing
 *   listen                       a free port that the policy grants to listen at
 *   closed other                 free ports
 */
#ifndef SOCKETS_H
#define SOCKETS_H

#include "hostile.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_un local;
	struct sockaddr_storage storage;
};

/* An address of this host that no policy grants; the suite looks for packets that go there. */
#define ELSEWHERE4 "192.0.2.9"
#define ELSEWHERE6 "2001:db8::9"

union address v4(const char *host, long port);
union address v6(const char *host, long port);
union address local(const char *path);
/* The port is the argument KEY: an address of a server by its name above. */
#define V4(key) v4("127.0.0.1", need_number(key))
#define V6(key) v6("::1", need_number(key))
/* How long the address is, as a program would say it. */
socklen_t size_of(const union address *address);

/* A socket whose calls end after a second; a refusal ends the guest. */
int open_socket(int family, int type, int protocol);
#define TCP4() open_socket(AF_INET, SOCK_STREAM, 0)
#define UDP4() open_socket(AF_INET, SOCK_DGRAM, 0)
/* The same, connected to the door of that family and type. */
int open_door(int family, int type);
/* As connect(2), bind(2) and sendto(2) of a nonce, with the address's own size. */
int connect_to(int fd, union address to);
int bind_to(int fd, union address to);
ssize_t send_to(int fd, union address to, int flags);
void set(int fd, int level, int option, int value);

/* Ends the guest if `result` is -1, and says which call it was. */
void must(long result, const char *call);

/* Writes the nonce: DONE or REFUSED. */
int say(int fd);
/* Connects `fd` and says the nonce. */
int say_to(int fd, union address to);
/* The same over a new socket. */
int deliver(union address to, int type, int protocol);

/* Answers every connection, or every datagram, with the nonce, and holds. */
int serve(int fd);

/* Runs `act` with `word` in a second thread. */
void in_thread(void *(*act)(void *), void *word);

#endif

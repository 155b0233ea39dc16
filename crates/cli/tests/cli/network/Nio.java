import java.net.*;
import java.net.http.*;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.util.*;

/** A server with a selector, clients that connect without waiting, datagrams, and an HttpClient. */
public class Nio {
    static final int CLIENTS = 100;

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        InetSocketAddress place = new InetSocketAddress("127.0.0.1", port);
        ServerSocketChannel server = ServerSocketChannel.open().bind(place, CLIENTS);
        Thread thread = new Thread(() -> serve(server));
        thread.setDaemon(true);
        thread.start();
        System.out.println("answers " + ask(place));
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + "/")).build();
        System.out.println("http " + HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body());
        System.out.println("refused " + refusal(port + 1) + ", " + refusal(port + 2));
        System.out.println("datagram " + datagram(place));
    }

    /** Answers whatever is read with a page. */
    static void serve(ServerSocketChannel server) {
        byte[] page = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\npage".getBytes();
        try (Selector selector = Selector.open()) {
            server.configureBlocking(false).register(selector, SelectionKey.OP_ACCEPT);
            while (true) {
                selector.select(key -> {
                    try {
                        if (key.isAcceptable()) {
                            server.accept().configureBlocking(false).register(selector, SelectionKey.OP_READ);
                        } else if (key.isReadable()) {
                            SocketChannel client = (SocketChannel) key.channel();
                            if (client.read(ByteBuffer.allocate(4096)) >= 0) client.write(ByteBuffer.wrap(page));
                            client.close();
                        }
                    } catch (Exception error) {
                        System.out.println("server: " + error);
                    }
                });
            }
        } catch (Exception error) {
            System.out.println("server: " + error);
        }
    }

    /** Begins all connections, then sends and reads each as it becomes ready. */
    static int ask(InetSocketAddress place) throws Exception {
        int answers = 0, open = CLIENTS;
        try (Selector selector = Selector.open()) {
            for (int i = 0; i < CLIENTS; i++) {
                SocketChannel client = SocketChannel.open();
                client.configureBlocking(false).register(selector, SelectionKey.OP_CONNECT);
                client.connect(place);
            }
            while (open > 0) {
                selector.select();
                for (Iterator<SelectionKey> ready = selector.selectedKeys().iterator(); ready.hasNext(); ready.remove()) {
                    SelectionKey key = ready.next();
                    SocketChannel client = (SocketChannel) key.channel();
                    if (key.isConnectable()) {
                        client.finishConnect();
                        client.write(ByteBuffer.wrap("x".getBytes()));
                        key.interestOps(SelectionKey.OP_READ);
                    } else if (client.read(ByteBuffer.allocate(4096)) > 0) {
                        answers++;
                    } else {
                        client.close();
                        open--;
                    }
                }
            }
        }
        return answers;
    }

    static String refusal(int port) throws Exception {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress("127.0.0.1", port), 1000);
            return "connected";
        } catch (SocketException error) {
            return error.getMessage();
        }
    }

    static String datagram(InetSocketAddress place) throws Exception {
        try (DatagramChannel server = DatagramChannel.open().bind(place); DatagramSocket client = new DatagramSocket()) {
            client.send(new DatagramPacket("ping".getBytes(), 4, place));
            ByteBuffer buffer = ByteBuffer.allocate(16);
            SocketAddress from = server.receive(buffer);
            server.send(buffer.flip(), from);
            DatagramPacket packet = new DatagramPacket(new byte[16], 16);
            client.receive(packet);
            return new String(packet.getData(), 0, packet.getLength());
        }
    }
}

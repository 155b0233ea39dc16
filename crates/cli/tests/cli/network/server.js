// An http server and its clients, plain sockets and datagrams, and a granted name.
const dgram = require('dgram'), dns = require('dns'), http = require('http'), net = require('net');
const { once } = require('events');
const port = Number(process.argv[2]), clients = 50;

function ask(agent, path) {
  return new Promise((resolve, reject) => {
    http.get({ host: 'localhost', port, path, agent }, answer => {
      let text = '';
      answer.setEncoding('utf8').on('data', part => text += part).on('end', () => resolve(Number(text)));
    }).on('error', reject);
  });
}

async function requests(agent) {
  const paths = Array.from({ length: clients }, (_, number) => '/' + number);
  const answers = await Promise.all(paths.map(path => ask(agent, path)));
  agent.destroy();
  return answers.reduce((sum, answer) => sum + answer, 0);
}

async function refusal(port) {
  const [error] = await once(net.connect(port, '127.0.0.1'), 'error').catch(error => [error]);
  return error.code;
}

async function datagram() {
  const server = dgram.createSocket('udp4'), client = dgram.createSocket('udp4');
  server.on('message', (message, from) => server.send(message, from.port, from.address));
  server.bind(port, '127.0.0.1');
  await once(server, 'listening');
  client.send('ping', port, '127.0.0.1');
  const [message] = await once(client, 'message');
  client.close();
  server.close();
  return message.toString();
}

async function main() {
  const server = http.createServer((request, answer) => answer.end(request.url.slice(1)));
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  console.log('fresh', await requests(new http.Agent()));
  console.log('kept alive', await requests(new http.Agent({ keepAlive: true, maxSockets: 4 })));
  server.close();
  console.log('refused', await refusal(port + 1), await refusal(port + 2));
  console.log('datagram', await datagram());
  console.log('name', (await dns.promises.lookup('localhost', { family: 4 })).address);
}

main();

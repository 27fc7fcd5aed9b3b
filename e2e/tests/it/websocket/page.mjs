// Watches as a web page does: with the `ws` package, an Origin, and a token as subprotocol.
//
// Arguments: the folder of the packages, the URL, the Origin, the file of the authority, the token. It says on its
// standard output, a JSON document a line, the chosen subprotocol, each event, and how the watch ended.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const [packages, url, origin, authority, token] = process.argv.slice(2);
const { WebSocket } = createRequire(`${packages}/`)('ws');
const say = (said) => process.stdout.write(JSON.stringify(said) + '\n');

const encoded = Buffer.from(token).toString('base64url');
const protocols = [`base64url.bearer.authorization.k8s.io.${encoded}`, 'base64.binary.k8s.io'];
const socket = new WebSocket(url, protocols, { origin, ca: readFileSync(authority) });
socket.on('open', () => {
    say({ protocol: socket.protocol });
    // A page that sends data and PING is not disturbed by it.
    socket.send('ignored');
    socket.ping('alive');
});
socket.on('pong', (payload) => say({ pong: payload.toString() }));
socket.on('message', (data, isBinary) => {
    const event = JSON.parse(data.toString());
    say({ event: event.type, name: event.object.metadata.name, isBinary });
});
socket.on('unexpected-response', (request, response) => {
    say({ status: response.statusCode });
    request.destroy();
});
socket.on('close', (code) => say({ closed: code }));
socket.on('error', (error) => say({ error: error.message }));

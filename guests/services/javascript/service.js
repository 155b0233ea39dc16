// A service of WASI 0.3 in JavaScript: it says what was asked for, and how long what was sent is.
// The engine inside the component is somebody else's: componentize-qjs, which tools/real-filters fetches.

import { Fields, Request, Response } from 'wasi:http/types@0.3.0';

// The engine has no TextEncoder.
const text = (words) => Uint8Array.from(words, (letter) => letter.charCodeAt(0));

async function length(body) {
  let bytes = 0;
  for await (const chunk of body) bytes += chunk.length;
  return bytes;
}

export const handler = {
  async handle(request) {
    const path = request.getPathWithQuery();
    const sent = wit.Future.from({ tag: 'ok' }, wit.Future.RESULT_VOID_ERROR_CODE);
    const [body] = Request.consumeBody(request, sent.readable);
    const words = text(`${path}: ${await length(body)} bytes\n`);
    const content = wit.Stream.from([words], wit.Stream.U8);
    const trailers = wit.Future.from(
      { tag: 'ok', val: null },
      wit.Future.RESULT_OPTION_OTHER_ERROR_CODE,
    );
    const fields = Fields.fromList([['content-type', text('text/plain')]]);
    const [response] = Response.new(fields, content.readable, trailers.readable);
    return response;
  },
};

// Reads OpenAPI documents with two public packages, and writes the problems that they report.
//
//	node check_openapi.mjs FILE...
//
// swagger-parser validates v2 and v3 documents. openapi-typescript generates types, of v3 documents only.
// The output is one JSON document a line: {"reader": ..., "file": ..., "problems": [...]}. It judges nothing: the test does.

import { readFile } from "node:fs/promises";
import { basename } from "node:path";

import SwaggerParser from "@apidevtools/swagger-parser";
import openapiTS, { astToString } from "openapi-typescript";

// A message can contain much of a document.
const LONGEST = 1000;

async function report(reader, path, read) {
  const problems = [];
  try {
    await read();
  } catch (error) {
    problems.push(String(error.message).slice(0, LONGEST));
  }
  console.log(JSON.stringify({ reader, file: basename(path), problems }));
}

async function generate(document) {
  if (astToString(await openapiTS(document)).trim() === "") throw new Error("it generated no types");
}

for (const path of process.argv.slice(2)) {
  const text = await readFile(path, "utf8");
  // Each reader may change what it gets.
  await report("swagger-parser", path, () => SwaggerParser.validate(JSON.parse(text)));
  if (JSON.parse(text).openapi) await report("openapi-typescript", path, () => generate(JSON.parse(text)));
}

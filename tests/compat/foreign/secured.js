// Of TLS and SCRAM: the properties file that JOSEFINE_SECURED names, as kafkajs wants it.
"use strict";
const fs = require("node:fs");

const file = process.env.JOSEFINE_SECURED;
const lines = file ? fs.readFileSync(file, "utf8").split("\n") : [];
const settings = new Map(
  lines.map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
);

module.exports = file
  ? {
      ssl: { ca: [fs.readFileSync(settings.get("ssl.truststore.location"))] },
      sasl: {
        mechanism: settings.get("sasl.mechanism").toLowerCase(),
        username: settings.get("sasl.username"),
        password: settings.get("sasl.password"),
      },
    }
  : {};

// Translates WGSL, a JSON object of texts by name, to MSL, HLSL and SPIR-V; prints what failed, by name.
import { readFileSync } from "node:fs";
import { parseSpirv, parseWgsl, validate, writeHlsl, writeMsl, writeSpirv } from "naga-wasm";

const translations = {
    MSL: (module, info) => writeMsl(module, info, { langVersion: [3, 0] }),
    HLSL: (module, info) => writeHlsl(module, info, { shaderModel: "6_2" }),
    "SPIR-V": (module, info) => validate(parseSpirv(writeSpirv(module, info))),
};

function failures(text) {
    let module, info;
    try {
        module = parseWgsl(text);
        info = validate(module);
    } catch (error) {
        return { WGSL: String(error.formatted ?? error) };
    }
    const found = {};
    for (const [language, write] of Object.entries(translations)) {
        try {
            const written = write(module, info);
            if (!written) found[language] = "nothing was written";
        } catch (error) {
            found[language] = String(error.formatted ?? error);
        }
    }
    return found;
}

const texts = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, failures(text)]))));

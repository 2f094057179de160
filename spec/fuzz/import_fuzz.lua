-- Configurations of other tools: YAML is read or refused; what is converted is Lua that compiles.

local promptfoo = require "ponder.judge.import.promptfoo"
local yaml = require "ponder.base.yaml"

local SEEDS = { [[
description: sums
prompts: ['Say {{q}}', '[{"role": "user", "content": {{ q | dump }}}]',
  {raw: '{{m | dump}}', label: l}]
providers: [openai:chat:x, {id: ollama:y, label: z, config: {temperature: 0}, prompts: [l]},
  {a: {}}]
defaultTest: {vars: {s: 1}, assert: [{type: cost, threshold: 0.1}], options: {provider: ollama:g}}
tests:
  - {description: d, vars: {q: [a, b], m: &m [{role: user, content: c}]}, threshold: 0.5, assert: [
      {type: not-contains-any, value: 'a, b'}, {type: regex, value: '\d+[^a-z]'}, {$ref: '#/t/x'},
      {type: is-json, value: {type: object}}, {type: assert-set, assert: [{type: javascript}]}]}
  - {vars: {<<: {n: *m}, q: "{{s}}"}, assert: [{type: similar, value: [x], provider: {id: a:b}}]}
t: {x: {type: icontains, value: !!str 7}}
]] }

return {
    seeds = SEEDS,
    try = function(input)
        local value, lines = yaml.decode(input)
        assert(value ~= nil and type(lines) == "table" or type(lines) == "string", "no message")
        local lua, notes = promptfoo(input, "c.yaml", "/nonexistent")
        if lua then
            assert(load(lua))
            assert(type(notes) == "table", "no notes")
        else
            assert(type(notes) == "string", "no message")
        end
    end,
}

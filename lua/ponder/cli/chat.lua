--- `ponder chat "..."`: asks a model, which may call tools, and streams its reply.

local cli = require "ponder.cli.shared.main"
local base64 = require "ponder.base.base64"
local closing = require "ponder.show.closing"
local converse = require "ponder.think.strategy.converse"
local files = require "ponder.run.log.files"
local flags = require "ponder.cli.shared.flags"
local json = require "ponder.json"
local kept = require "ponder.run.log.retention"
local limits = require "ponder.cli.shared.limits"
local log = require "ponder.log"
local logging = require "ponder.cli.shared.logging"
local logged = require "ponder.run.log.command"
local model = require "ponder.model"
local options = require "ponder.base.options"
local quote = require "ponder.quote"
local read_file = require("ponder.base.file").read
local reader = require "ponder.run.log.reader"
local redact = require "ponder.base.redact"
local schema = require "ponder.model.schema"
local task = require "ponder.task"
local toolbox = require "ponder.cli.shared.toolbox"

-- Flags that are options of the call.
local CALL = { "system", "temperature", "max_output_tokens", "seed", "reasoning_effort",
    "timeout_ms" }

local chat = cli.command({}, {
    { title = "Prompt",
        { "model", value = "NAME", help = "provider:model (default: $PONDER_MODEL)" },
        { "system", value = "TEXT", help = "the system prompt" },
        { "c", alias = "continue", help = "continue the last logged conversation" },
        { "attach", value = "FILE", files = true, many = true,
            help = "attach a text or an image to the prompt; may be repeated" },
        { "schema", value = "FILE", files = true,
            help = "JSON schema that the reply must match; prints only its JSON" },
    },
    { title = "Limits of the whole run (default: none)",
        limits.RULES.max_cost,
        { "max_total_tokens", value = "N", type = "integer", min = 0,
            help = "tokens of prompt and reply, including retries" },
        limits.RULES.timeout,
    },
    { title = "Output",
        { "json", help = "print the whole reply as one JSON object" },
        cli.VERBOSE,
    },
    { title = "Each call",
        { "temperature", value = "X", type = "number", min = 0, help = "sampling temperature" },
        { "max_output_tokens", value = "N", type = "integer", min = 1, was = "max_tokens",
            help = "limit for the reply, in tokens" },
        { "seed", value = "N", type = "integer", help = "seed of sampling, if supported" },
        { "reasoning_effort", value = "LEVEL", help = "none, minimal, low, medium, high" },
        { "base_url", value = "URL", help = "base URL of the provider's API" },
        { "timeout_ms", value = "TIME", type = "duration", unit = "ms", min = 1,
            help = "timeout of each attempt (default: 10m; a bare number: milliseconds)" },
        limits.RULES.cache,
    },
    { title = "Tools",
        toolbox.OPTIONS,
        { "max_tool_round_trips", value = "N", type = "integer", min = 0,
            help = "how often the model may ask for tools (default: 20)" },
    },
    { title = "Run log", logging.OPTIONS },
})

chat.summary = "ask a model and stream its reply"

chat.about = [[
ponder chat [OPTION...] PROMPT...
COMMAND | ponder chat [OPTION...] [PROMPT...]

Asks a model and prints its reply as it arrives. The prompt is piped standard input, then the
arguments; - reads it from a terminal, too. The model's reasoning and its tool calls go to standard
error. -c continues the newest conversation in ponder log (which omits those with --no-log or --log
FILE), with its model unless --model names another.]]

-- The newest conversation: {model, base_url, system, messages}.
local function last_conversation()
    for _, file in ipairs(kept.list()) do
        local opened <close> = not file.damage and reader.open(file.path) or nil
        local run = opened and opened:run()
        if run and run.command == "chat" and type(run.answer) == "table" then
            return run.answer.conversation
        end
    end
end

local MAX_ATTACHED_BYTES = 20 * 1024 * 1024

local IMAGES = { { "^\x89PNG\r\n\x1A\n", "image/png" }, { "^\xFF\xD8\xFF", "image/jpeg" },
    { "^GIF8[79]a", "image/gif" }, { "^RIFF....WEBP", "image/webp" } }

-- An attached file in the form that the log records.
local function read_attached(path)
    local bytes, message = read_file(path, MAX_ATTACHED_BYTES)
    if not bytes then
        return nil, message
    end
    for _, image in ipairs(IMAGES) do
        if bytes:find(image[1]) then
            return { media_type = image[2], data = base64.encode(bytes) }
        end
    end
    if not utf8.len(bytes) or bytes:find "%z" then
        return nil, path .. ": neither an image (PNG, JPEG, GIF, WebP) nor UTF-8 text"
    end
    return { text = bytes }
end

-- The content of a message with a question and files: text; or, with images, parts in the
-- provider's form.
local function content_of(question, paths, m)
    local texts, images = {}, {}
    for _, path in ipairs(paths) do
        local file = cli.expect_flag("--attach", log.record("chat.attach", { path = path },
            read_attached, path))
        if file.text then
            texts[#texts + 1] = quote.tagged("file", ("%s\n\n%s"):format(path, file.text),
                math.maxinteger)
        else
            local image = cli.expect_flag("--attach", m.target.provider.image,
                ("%s: %s does not take images"):format(path, m.name))
            images[#images + 1] = image(file.media_type, file.data)
        end
    end
    texts[#texts + 1] = question
    local text = table.concat(texts, "\n\n")
    if not images[1] then
        return text
    end
    images[#images + 1] = { type = "text", text = text }
    return images
end

-- Where a model is, as logs have it.
local function address_of(m)
    return m.target.base_url and redact.address(m.target.base_url, redact.MARK)
end

-- The model: that of --model; with -c, that of the conversation, whose name and address it then
-- has. Only this user, not a log, says where keys go.
local function open_model(opts, conversation)
    local named = opts.model or conversation.model
    local m, message = model.try_open(named, { base_url = opts.base_url })
    local at = not opts.model and not opts.base_url and conversation.base_url
    local hint = at and ("the conversation was with %s at %s; continue it there with --base-url, "
        .. "or with another --model"):format(named, at)
    cli.need(m, at and ("%s; %s"):format(message, hint) or message)
    cli.expect_flag("-c", not at or at == address_of(m), hint)
    conversation.model, conversation.base_url = named or model.default_name(), address_of(m)
    return m
end

-- The options of the call.
local function call_of(opts, m, conversation, question)
    local call = options.pick(opts, CALL)
    call.messages = conversation.messages or {}
    call.system = call.system or conversation.system
    if opts.schema then
        local text = cli.expect_flag("--schema", files.read(opts.schema, "data"))
        local read, problem = json.decode(text)
        if read ~= nil and (type(read) ~= "table" or read[1] ~= nil) then
            problem = "expected an object"
        elseif read ~= nil then
            problem = select(2, schema.format(read))
        end
        cli.expect_flag("--schema", not problem, ("%s: not a JSON schema: %s"):format(opts.schema,
            problem and problem:gsub("^json%.decode: ", ""):gsub("^.-opts.response_format:? ", "")))
        call.response_format, call.repair = read, true
    end
    table.insert(call.messages, { role = "user",
        content = content_of(question, opts.attach or {}, m) })
    return call
end

-- Returns write(text, kind), which prints text on standard output and reasoning on standard error,
-- and a function that flushes both and ends the line.
local function printer()
    local clean = { reasoning = quote.terminal_pieces(), text = quote.terminal_pieces() }
    local last = "\n"
    local function write(text, kind)
        local out = kind == "reasoning" and io.stderr or io.stdout
        local piece = clean[kind](text)
        last = kind == "text" and piece:sub(-1):match "." or last
        out:write(piece)
        out:flush()
    end
    return write, function()
        write(nil, "reasoning")
        write(nil, "text")
        if last ~= "\n" then
            write("\n", "text")
        end
    end
end

-- Asks, and prints the reply as it arrives.
local function ask(opts, m, conversation, call, box)
    local end_line = function() end
    if not opts.json and not opts.schema then
        call.on_delta, end_line = printer()
    end
    limits.begin(opts)
    local reply, message, code = task.with_budget(flags.budget(opts), converse.run, m, call, {
        tools = function() return box:current() end,
        max_tool_round_trips = opts.max_tool_round_trips,
        on_tool = function(name, arguments)
            end_line()
            io.stderr:write(("ponder chat: %s %s\n"):format(quote.line(name),
                quote.line(arguments)))
        end })
    end_line()
    if reply then
        local messages = table.move(call.messages, 1, #call.messages, 1, {})
        messages[#messages + 1] = reply.message
        conversation.system, conversation.messages = call.system, messages -- for -c
        logged.answer(options.merge({ conversation = conversation }, reply))
        if opts.json or opts.schema then
            cli.print_json(opts.json and reply or reply.json)
        end
        if reply.truncated or reply.finish_reason == "length" then
            io.stderr:write("ponder chat: the reply was truncated\n")
        end
        return 0
    end
    logged.failure(("%s [%s]"):format(message, code))
    return 1, ("%s [%s]"):format(message, code)
end

function chat.run(opts, operands, list)
    cli.refuse(opts.max_tool_round_trips and not opts.tools and not opts.mcp
        and "--max-tool-round-trips needs --tools or --mcp")
    local question, input = logging.prompt(operands)
    cli.expect(question:find "%S" or opts.attach, operands[1] and "the prompt is empty"
        or "expected a prompt: ponder chat PROMPT..., or COMMAND | ponder chat [PROMPT...]")
    logging.begin(opts, { command = "chat", arguments = list, input = input })
    local conversation = not opts.c and {} or cli.expect_flag("-c",
        log.record("chat.conversation", json.object {}, last_conversation),
        "no conversation is logged")
    local m = open_model(opts, conversation)
    local call = call_of(opts, m, conversation, question)
    local _ <close> = limits.cache(opts.cache)
    local box <close> = toolbox.open(opts)
    return closing.around("chat", ask, opts, m, conversation, call, box)
end

return chat

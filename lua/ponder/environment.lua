--- The environment variables that ponder reads.

local environment = {}

---@class ponder.Variable
---@field name string
---@field about string
---@field kind "key"|"address"|"run"|nil a provider's key, or the address of its server; "run":
---  another that influences a run
---@field provider string?

---@type ponder.Variable[]
environment.LIST = {
    { name = "PONDER_MODEL", kind = "run", about = "the default model: provider:model" },
    { name = "PONDER_PROVIDER", kind = "run",
        about = "the default provider, for model names without one" },
    { name = "PONDER_PROMPTS", kind = "run",
        about = "directory of prompt files that replace the built-in ones" },
    { name = "OPENAI_API_KEY", kind = "key", provider = "openai", about = "key for openai models" },
    { name = "OPENAI_BASE_URL", kind = "address", provider = "openai",
        about = "another server for openai models, such as http://127.0.0.1:8080/v1 of llama.cpp" },
    { name = "OPENAI_ORG_ID", about = "organization to bill for openai calls" },
    { name = "OPENAI_PROJECT_ID", about = "project to bill for openai calls" },
    { name = "ANTHROPIC_API_KEY", kind = "key", provider = "anthropic",
        about = "key for anthropic models" },
    { name = "ANTHROPIC_AUTH_TOKEN", kind = "key", provider = "anthropic",
        about = "token for anthropic models, instead of a key" },
    { name = "ANTHROPIC_BASE_URL", kind = "address", provider = "anthropic",
        about = "another server for anthropic models" },
    { name = "OLLAMA_HOST", kind = "address", provider = "ollama",
        about = "address of the Ollama server (127.0.0.1:11434)" },
    { name = "OLLAMA_API_KEY", kind = "key", provider = "ollama",
        about = "key for an Ollama server that needs one" },
    { name = "NO_COLOR", about = "if not empty, turns colours off" },
}

---The names of the variables of a kind.
---@param kind string
---@param provider string? nil: of all
---@return string[]
function environment.names(kind, provider)
    local names = {}
    for _, variable in ipairs(environment.LIST) do
        if variable.kind == kind and (not provider or variable.provider == provider) then
            names[#names + 1] = variable.name
        end
    end
    return names
end

return environment

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
    { name = "GEMINI_API_KEY", kind = "key", provider = "gemini", about = "key for gemini models" },
    { name = "GOOGLE_API_KEY", kind = "key", provider = "gemini",
        about = "key for gemini models, if GEMINI_API_KEY is not set" },
    { name = "AZURE_OPENAI_API_KEY", kind = "key", provider = "azure",
        about = "key for azure models, which are deployments" },
    { name = "AZURE_OPENAI_ENDPOINT", kind = "address", provider = "azure",
        about = "address of the Azure resource: https://NAME.openai.azure.com" },
    { name = "AWS_BEARER_TOKEN_BEDROCK", kind = "key", provider = "bedrock",
        about = "key for bedrock models" },
    { name = "AWS_REGION", about = "region of bedrock models" },
    { name = "OPENROUTER_API_KEY", kind = "key", provider = "openrouter",
        about = "key for openrouter models" },
    { name = "GROQ_API_KEY", kind = "key", provider = "groq", about = "key for groq models" },
    { name = "DEEPSEEK_API_KEY", kind = "key", provider = "deepseek",
        about = "key for deepseek models" },
    { name = "MISTRAL_API_KEY", kind = "key", provider = "mistral",
        about = "key for mistral models" },
    { name = "XAI_API_KEY", kind = "key", provider = "xai", about = "key for xai models" },
    { name = "TOGETHER_API_KEY", kind = "key", provider = "together",
        about = "key for together models" },
    { name = "VLLM_BASE_URL", kind = "address", provider = "vllm",
        about = "address of a vLLM server (http://localhost:8000/v1)" },
    { name = "VLLM_API_KEY", kind = "key", provider = "vllm", about = "its key, if it needs one" },
    { name = "LLAMACPP_BASE_URL", kind = "address", provider = "llamacpp",
        about = "address of a llama.cpp server (http://localhost:8080/v1)" },
    { name = "LLAMACPP_API_KEY", kind = "key", provider = "llamacpp",
        about = "its key, if it needs one" },
    { name = "LMSTUDIO_BASE_URL", kind = "address", provider = "lmstudio",
        about = "address of an LM Studio server (http://localhost:1234/v1)" },
    { name = "LMSTUDIO_API_KEY", kind = "key", provider = "lmstudio",
        about = "its key, if it needs one" },
    { name = "SSL_CERT_FILE",
        about = "PEM file of the authorities to trust, instead of the system's" },
    { name = "NO_COLOR", about = "if not empty, turns colours off" },
}

---The names of the variables of a kind.
---@param provider string? nil: of all
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

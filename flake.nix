# For Nix: `nix run . -- demo`, `nix profile install .`
{
  description = "DNS experimentation testbed: replays recorded DNS traffic precisely on time and reports what happened";
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      package = (builtins.fromTOML (builtins.readFile ./Cargo.toml)).workspace.package;
      systems = [ "x86_64-linux" "aarch64-linux" ];
      build = pkgs: pkgs.rustPlatform.buildRustPackage {
        pname = "ldplayer";
        version = package.version;
        src = self;
        cargoLock.lockFile = ./Cargo.lock;
        buildType = "dist";
        cargoBuildFlags = [ "--package" "ldplayer" ];
        # The tests start servers of the distribution, in namespaces.
        doCheck = false;
        nativeBuildInputs = [ pkgs.installShellFiles ];
        postInstall = ''
          $out/bin/ldplayer man --out pages
          installManPage pages/*.1
          for shell in bash zsh fish; do $out/bin/ldplayer completions $shell >ldplayer.$shell; done
          installShellCompletion ldplayer.bash ldplayer.zsh ldplayer.fish
        '';
        meta = {
          description = "DNS experimentation testbed";
          license = [ pkgs.lib.licenses.mit pkgs.lib.licenses.asl20 ];
          platforms = systems;
          mainProgram = "ldplayer";
        };
      };
    in {
      packages = nixpkgs.lib.genAttrs systems (system: { default = build nixpkgs.legacyPackages.${system}; });
    };
}

# What flake.nix gives to Nixpkgs, without Nixpkgs: scripts/package.sh looks at it.
let
  lib = {
    genAttrs = names: make: builtins.listToAttrs (map (name: { inherit name; value = make name; }) names);
    licenses = { mit = "MIT"; asl20 = "Apache-2.0"; };
  };
  pkgs = { inherit lib; installShellFiles = "installShellFiles"; rustPlatform.buildRustPackage = given: given; };
  nixpkgs = { inherit lib; legacyPackages = { x86_64-linux = pkgs; aarch64-linux = pkgs; }; };
in
((import ../../flake.nix).outputs { self = "."; inherit nixpkgs; }).packages
